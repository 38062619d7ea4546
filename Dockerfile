# diskgnn with OpenBLAS, for jobs that run in containers:
#
#	docker build -t diskgnn .
#	docker run --rm --init -v /data:/data -w /data diskgnn train --pack pack --out run
#
# Without --init, as process 1, a program that the Go runtime ends cannot abort: its exit code is 2,
# not 134 (docs/cli.md).
#
# io_uring needs a seccomp profile that allows it (--security-opt seccomp=FILE); without one
# reads go by pread, and the program says so. `docker run diskgnn doctor` tells what is missing.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags=-s -o /diskgnn ./cmd/diskgnn \
 && go run ./internal/licences -o /THIRD_PARTY_LICENCES.txt ./cmd/diskgnn

FROM debian:bookworm-slim
# Debian's stable release is the pin.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends libopenblas0-pthread \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --system --uid 1000 diskgnn
COPY --from=build /diskgnn /usr/local/bin/diskgnn
COPY --from=build /THIRD_PARTY_LICENCES.txt /src/LICENSE /usr/share/doc/diskgnn/
ENV GOTRACEBACK=crash
USER 1000
ENTRYPOINT ["diskgnn"]
