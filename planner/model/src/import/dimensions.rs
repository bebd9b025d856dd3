//! Dimensions whose names say what they are made of, as `past_sequence_length + sequence_length`.

use std::collections::BTreeMap;

/// A sum of products of names and numbers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sum<'n> {
    /// Each with its sign.
    terms: Vec<(i64, Vec<Factor<'n>>)>,
}

#[derive(Clone, Debug, PartialEq)]
enum Factor<'n> {
    Number(i64),
    Name(&'n str),
}

impl<'n> Sum<'n> {
    /// Reads a name that is a sum or a product. A minus has spaces around it: names may have one.
    pub fn of(name: &'n str) -> Option<Self> {
        let mut terms = vec![];
        for (at, part) in name.split(" - ").enumerate() {
            for (place, term) in part.split('+').enumerate() {
                let sign = if at > 0 && place == 0 { -1 } else { 1 };
                terms.push((sign, factors(term)?));
            }
        }
        let plain = terms.len() == 1 && terms[0].1.len() == 1;
        (!plain).then_some(Self { terms })
    }

    /// The names in it.
    pub fn names(&self) -> impl Iterator<Item = &'n str> + '_ {
        self.terms.iter().flat_map(|(_, factors)| factors).filter_map(|factor| match factor {
            Factor::Name(name) => Some(*name),
            Factor::Number(_) => None,
        })
    }

    /// Its extent, if those of all names are known.
    pub fn extent(&self, known: &BTreeMap<String, usize>) -> Option<usize> {
        let number = |factor: &Factor<'_>| match factor {
            Factor::Number(number) => Some(*number),
            Factor::Name(name) => known.get(*name).and_then(|&extent| i64::try_from(extent).ok()),
        };
        let mut total = 0i64;
        for (sign, factors) in &self.terms {
            let product = factors.iter().try_fold(*sign, |all, one| all.checked_mul(number(one)?));
            total = total.checked_add(product?)?;
        }
        usize::try_from(total).ok()
    }

    /// The name with the extents of the names that are known.
    pub fn with(&self, known: &BTreeMap<String, usize>) -> String {
        let mut text = String::new();
        for (at, (sign, factors)) in self.terms.iter().enumerate() {
            text += match (*sign < 0, at) {
                (true, _) => " - ",
                (false, 0) => "",
                (false, _) => " + ",
            };
            let factors = factors.iter().map(|factor| match factor {
                Factor::Number(number) => number.to_string(),
                Factor::Name(name) => match known.get(*name) {
                    Some(extent) => extent.to_string(),
                    None => (*name).into(),
                },
            });
            text += &factors.collect::<Vec<String>>().join("*");
        }
        text
    }
}

fn factors(term: &str) -> Option<Vec<Factor<'_>>> {
    let factor = |text: &str| match text.parse::<i64>() {
        Ok(number) => number >= 0,
        Err(_) => {
            let plain = |c: char| c.is_alphanumeric() || "_.-:".contains(c);
            !text.is_empty() && text.chars().all(plain)
        }
    };
    let texts: Vec<&str> = term.split('*').map(str::trim).collect();
    texts.iter().all(|text| factor(text)).then(|| {
        let of = |text| str::parse(text).map_or(Factor::Name(text), Factor::Number);
        texts.into_iter().map(of).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sums_have_the_sums_extent() {
        let known = [("past".to_string(), 4), ("new".to_string(), 3)].into();
        for (name, extent, with) in [
            ("past + new", Some(7), "4 + 3"),
            ("past+new+1", Some(8), "4 + 3 + 1"),
            ("2*new - past", Some(2), "2*3 - 4"),
            ("new - past", None, "3 - 4"),
            ("past + other", None, "4 + other"),
            ("2 * other - new + past", None, "2*other - 3 + 4"),
        ] {
            let sum = Sum::of(name).unwrap();
            assert_eq!((sum.extent(&known), sum.with(&known).as_str()), (extent, with), "{name}");
        }
        assert_eq!(Sum::of("past + other").unwrap().names().collect::<Vec<_>>(), ["past", "other"]);
        for name in ["past", "batch-size", "a +", "floor(a/2) + 1", "", "+", "a b", "?"] {
            assert_eq!(Sum::of(name), None, "{name}");
        }
    }
}
