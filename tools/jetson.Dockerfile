# The command with kernels for a Jetson's GPU, on NVIDIA's system for it. Built on a Jetson, or on any machine that runs
# containers for 64-bit ARM:
#
#   docker build -f tools/jetson.Dockerfile -t eyelet .            JetPack 4: Nano, Xavier NX
#   docker build -f tools/jetson.Dockerfile -t eyelet --build-arg L4T=r35.4.1 --build-arg ARCHS=72,87 .   JetPack 5: Xavier, Orin
#   docker run --rm --runtime nvidia -v "$PWD:/data" -w /data eyelet run resnet50.pack --device cuda
#
# NVIDIA's runtime puts the GPU's driver into the container. Kernels are compiled by NVRTC, as tools/cuda.sh fetches it.
ARG L4T=r32.7.1

FROM nvcr.io/nvidia/l4t-base:${L4T} AS build
ARG ARCHS=53,72
ENV DEBIAN_FRONTEND=noninteractive PATH=/root/.cargo/bin:$PATH
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates curl gcc libc6-dev python3 python3-pip python3-venv \
    && curl --proto =https --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal
COPY . /eyelet
WORKDIR /eyelet
# The system's own pip may be too old for NVIDIA's wheels.
RUN python3 -m pip install --upgrade pip && tools/cuda.sh \
    && EYELET_CUDA_ARCHS=${ARCHS} cargo build --locked --release -p eyelet-planner --bin eyelet --features cuda \
    && tools/share.sh target/release/eyelet target/share

FROM nvcr.io/nvidia/l4t-base:${L4T}
COPY --from=build /eyelet/target/release/eyelet /usr/local/bin/eyelet
COPY --from=build /eyelet/target/share /usr/local/share
ENTRYPOINT ["eyelet"]
