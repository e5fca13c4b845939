# What `npm run build` makes and the program `node`: no packages, no package manager, no embedded Postgres.
FROM node:24-slim AS node

# The program is the same for all architectures.
FROM --platform=$BUILDPLATFORM node:24-slim AS build
WORKDIR /build
COPY package.json package-lock.json ./
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY . .
# Readable by any user, and the same bytes whenever and wherever the same commit is built.
ARG SOURCE_DATE_EPOCH=0
RUN npm run build \
  && chmod -R a=rX,u+w dist && chmod a+x dist/bin/*.js \
  && mkdir -p /image/usr/local/bin && mv dist /image/app && ln -s /app/bin/tidemark.js /image/usr/local/bin/tidemark \
  && find /image -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +

FROM debian:bookworm-slim
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Tidemark" \
      org.opencontainers.image.description="Mirrors a field-service system that is reachable only over REST into Postgres" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
COPY --from=node /usr/local/bin/node /usr/local/bin/node
COPY --from=build /image /
ENV NODE_ENV=production \
    HTTP_HOST=0.0.0.0
WORKDIR /app
USER 1000:1000
EXPOSE 8080
# By the shell: to start Node each time would take as much processor time as a worker at rest.
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 \
  CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/${HTTP_PORT:-8080} && printf 'GET /healthz HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n' >&3 && read -t 4 -r _ status _ <&3 && [ \"$status\" = 200 ] || exit 1"]
STOPSIGNAL SIGTERM
# The exec form: the program itself is process 1, hears the signals, and starts no other processes it would have to reap.
ENTRYPOINT ["/app/bin/tidemark.js"]
CMD ["serve"]
