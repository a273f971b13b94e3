# The image of rmatail: the program, libibverbs and its drivers, and an ordinary user. docs/operating.md says how to run it.
# deploy/check runs these stages without a container engine, so that they are known to work; it knows the instructions that stand here.
ARG DEBIAN=bookworm
ARG GO=1.26

FROM golang:${GO}-${DEBIAN} AS build
WORKDIR /src
COPY scripts scripts
RUN scripts/install build
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN scripts/build --verbs -o /out/rmatail

FROM debian:${DEBIAN}-slim
COPY scripts /tmp/scripts
COPY --from=build /out/rmatail /usr/local/bin/rmatail
# The capability is for a user who is not root, to whom runtimes give none (a pod's limit of locked memory cannot be raised).
RUN /tmp/scripts/install run capability \
	&& /tmp/scripts/grant /usr/local/bin/rmatail \
	&& rm -rf /tmp/scripts /var/lib/apt/lists/* \
	&& groupadd --gid 7440 rmatail \
	&& useradd --uid 7440 --gid rmatail --home-dir /var/lib/rmatail --no-create-home --shell /usr/sbin/nologin rmatail \
	&& install -d -o rmatail -g rmatail -m 0750 /var/lib/rmatail /run/rmatail
USER rmatail
VOLUME /var/lib/rmatail
EXPOSE 7440 7472
ENTRYPOINT ["rmatail"]
CMD ["serve", "--listen", ":7440", "--http", ":7472", "--dir", "/var/lib/rmatail", "--socket", "/run/rmatail/arena.sock"]
