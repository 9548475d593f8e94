# Built in one stage, run in another: neither pip nor the build tool reaches the image that serves.
FROM python:3.13-slim-bookworm AS builder
WORKDIR /build

# Requirements first: this layer is rebuilt only when a lock changes.
COPY service/deploy/requirements.txt service/deploy/requirements-build.txt ./
RUN python -m venv --without-pip /opt/kvquote \
 && python -m venv --without-pip /opt/tools \
 && pip --python /opt/kvquote/bin/python install --no-cache-dir --require-hashes -r requirements.txt \
 && pip --python /opt/tools/bin/python install --no-cache-dir --require-hashes -r requirements-build.txt

COPY pyproject.toml LICENSE ./
COPY catalog catalog
COPY migrations migrations
COPY service service
RUN /opt/tools/bin/hatchling build -t wheel -d dist \
 && pip --python /opt/kvquote/bin/python install --no-cache-dir --no-index --no-deps dist/*.whl

FROM python:3.13-slim-bookworm
LABEL org.opencontainers.image.title="kvquote" \
      org.opencontainers.image.description="Quotes LLM-serving capacity: how many sequences fit a GPU, and what takes the memory" \
      org.opencontainers.image.licenses="Apache-2.0"

COPY --from=builder /opt/kvquote /opt/kvquote
RUN install -d -o 10001 -g 10001 /data

# Two workers: the host's cores, which the default counts, say nothing about this container's share of them.
ENV PATH="/opt/kvquote/bin:$PATH" \
    PYTHONUNBUFFERED=1 \
    HOST=0.0.0.0 \
    PORT=8000 \
    KVQUOTE_WORKERS=2 \
    DATABASE_URL=sqlite:////data/kvquote.db

# A number, so that Kubernetes can see that it is not root.
USER 10001:10001
WORKDIR /data
VOLUME ["/data"]
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=15s --retries=3 \
    CMD ["python", "-m", "service.deploy.healthcheck"]
ENTRYPOINT ["kvquote-server"]
CMD ["serve"]
