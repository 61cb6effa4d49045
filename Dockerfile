# An agent in a container. It serves the agent file /etc/stopgo/agent.yaml, and keeps its data in /data.
#
# docker build --tag stopgo .
# docker run --detach --name agent --publish 127.0.0.1:8080:8080 --volume agent-data:/data stopgo
# docker exec agent stopgo keys add me --role admin --config /etc/stopgo/agent.yaml

FROM python:3.13.0-slim-bookworm AS build
WORKDIR /src
COPY requirements.lock ./
RUN python -m venv /opt/stopgo \
    && /opt/stopgo/bin/python -m pip install --no-cache-dir --no-deps --require-hashes -r requirements.lock
COPY . .
# The sources are compiled here, because the file system of the container may be read-only.
RUN /opt/stopgo/bin/python -m pip install --no-cache-dir --no-deps --no-build-isolation . \
    && /opt/stopgo/bin/python -m pip uninstall --yes pip \
    && /opt/stopgo/bin/python -m compileall -q /opt/stopgo/lib

FROM python:3.13.0-slim-bookworm
LABEL org.opencontainers.image.title="Agent Stop and Go" \
      org.opencontainers.image.licenses="MIT"
RUN useradd --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin stopgo \
    && install --directory --owner=10001 --group=10001 --mode=0700 /data
COPY --from=build /opt/stopgo /opt/stopgo
COPY deploy/image/agent.yaml /etc/stopgo/agent.yaml
ENV PATH=/opt/stopgo/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["python", "-c", "from urllib.request import *; build_opener(ProxyHandler({})).open('http://127.0.0.1:8080/health', timeout=4)"]
ENTRYPOINT ["stopgo"]
CMD ["serve", "--config", "/etc/stopgo/agent.yaml"]
