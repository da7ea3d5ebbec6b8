#!/bin/bash
# Builds the image of the steps, tagged by what it is made from.
#
#   IMAGE   repository, such as registry.example/team/sluice (default: sluice)
#   LOCK    runtime (default) or gpu
#   PUSH    1 pushes it; the digest that the registry gives it is what `sluice compile` names from then on
#   BUILD   further arguments of `docker build`, such as --network host
# What was built is noted in build/kubeflow/image.json, which `sluice compile` reads where no image is named.
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
size=$(docker image inspect --format '{{.Size}}' "$image:$tag")
echo "built $image:$tag, $(numfmt --to=si "$size")B"
reference=$image:$tag
if [[ ${PUSH:-} == 1 ]]; then
  docker push "$image:$tag"
  reference=$(docker image inspect --format '{{range .RepoDigests}}{{println .}}{{end}}' "$image:$tag" \
    | grep --max-count=1 --fixed-strings "$image@") || {
    echo "error: $image:$tag was pushed, and the registry gave it no digest" >&2
    exit 1
  }
fi
mkdir -p build/kubeflow
printf '{"image": "%s", "git_sha": "%s", "lock": "%s", "bytes": %s}\n' "$reference" "$sha" "$lock" "$size" \
  >build/kubeflow/image.json
echo "noted $reference in build/kubeflow/image.json"
echo "next: sluice compile"
