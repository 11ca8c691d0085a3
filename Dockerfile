# The image of the server (target `server`: web, dispatcher, worker, migrations) and that of its runner (target `runner`,
# the same with load driver and compiler). Built by `docker compose build`; BuildKit and the older builder both can.
#
# The bases are pinned by exact version. Each is an argument, so that another registry can be named, and a digest added
# (`--build-arg PYTHON_IMAGE=python:3.11.16-slim-bookworm@sha256:...`): `deploy/pin-images` writes the digests of yours to .env.
ARG PYTHON_IMAGE=python:3.11.16-slim-bookworm
ARG NODE_IMAGE=node:22.23.2-bookworm-slim
# The compiler of the development machines: the driver's digest is part of what a series of measurements is.
ARG RUST_IMAGE=rust:1.95.0-slim-bookworm

FROM ${NODE_IMAGE} AS pages
WORKDIR /frontend
COPY frontend/package.json frontend/package-lock.json ./
RUN npm ci --no-audit --no-fund
COPY frontend ./
RUN npm run build

FROM ${PYTHON_IMAGE} AS server
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates git openssh-client \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --user-group --uid 10001 --create-home --home-dir /var/lib/speedtrack speedtrack
WORKDIR /app
COPY requirements.txt ./
# Wheels all of them: no compiler is needed here, so no stage of its own either.
RUN python3 -m venv /opt/venv \
    && /opt/venv/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements.txt
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1 SPEEDTRACK_HOME=/var/lib/speedtrack
COPY manage.py ./
COPY --from=pages /frontend/dist frontend/dist
COPY suites suites
COPY docs docs
COPY runners runners
COPY speedtrack speedtrack
# As root: the processes need not be able to change their own code.
RUN python -m compileall -q manage.py runners speedtrack
USER speedtrack
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen(r.Request('http://127.0.0.1:8000/healthz', headers={'X-Forwarded-Proto': 'https'}), timeout=4)"]
CMD ["python", "-m", "speedtrack", "web", "--bind", "0.0.0.0:8000"]

# Below `server`: the older builder works through all stages above the one it is asked for.
FROM ${RUST_IMAGE} AS driver
WORKDIR /driver
COPY runners/driver ./
RUN cargo build --release --locked --bin speedbench

FROM server AS runner
USER root
# What the suites in suites/ are built with; add what your own servers need.
RUN apt-get update \
    && apt-get install -y --no-install-recommends autoconf automake ccache g++ gcc libc6-dev libevent-dev make \
    && rm -rf /var/lib/apt/lists/* \
    && install --directory --owner speedtrack --group speedtrack --mode 700 /var/lib/speedtrack-runner
COPY --from=driver /driver/target/release/speedbench /usr/local/bin/
# Its home is the one place that it may write to for good: its token and settings lie there, too.
ENV SPEEDTRACK_DRIVER=/usr/local/bin/speedbench SPEEDTRACK_RUNNER_HOME=/var/lib/speedtrack-runner \
    HOME=/var/lib/speedtrack-runner
USER speedtrack
# A look at it would disturb what it measures; the server sees by its renewals whether it lives.
HEALTHCHECK NONE
CMD ["python", "-m", "runners", "--poll"]
