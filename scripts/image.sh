#!/bin/bash
# Builds the image of the steps, tagged by what it is made from.
#
#   IMAGE   repository, such as registry.example/team/sluice (default: sluice)
#   LOCK    runtime (default) or gpu
#   PUSH    1 pushes it, and prints the digest to compile with
#   BUILD   further arguments of `docker build`, such as --network host
set -euo pipefail
cd "$(dirname "$0")/.."

image=${IMAGE:-sluice}
lock=${LOCK:-runtime}
if ! command -v docker >/dev/null; then
  echo "error: docker is not installed; any builder that takes kubeflow/Dockerfile will do" >&2
  exit 2
fi
if [[ -n $(git status --porcelain -- pipeline components modules kubeflow requirements) ]]; then
  echo "error: there are changes that are not committed; the tag would not say what is inside. Commit, then build." >&2
  exit 2
fi
sha=$(git rev-parse --short=12 HEAD)
tag=$sha
[[ $lock == runtime ]] || tag=$sha-$lock

read -ra extra <<<"${BUILD:-}"
docker build "${extra[@]}" --file kubeflow/Dockerfile --build-arg "LOCK=$lock" --build-arg "GIT_SHA=$sha" \
  --tag "$image:$tag" .
echo "built $image:$tag, $(docker image inspect --format '{{.Size}}' "$image:$tag" | numfmt --to=si)B"
reference=$image:$tag
if [[ ${PUSH:-} == 1 ]]; then
  docker push "$image:$tag"
  reference=$(docker image inspect --format '{{index .RepoDigests 0}}' "$image:$tag")
fi
echo "next: sluice compile --image $reference"
