// Kubeflow's own launcher around one step; kfp_real_launcher.py lays it over Kubeflow's sources and calls it.
//
// SLUICE_TASK names a JSON file: {"input", "component", "command", "args", "bucket", "store", "result"}. The bucket's
// objects are files below `store`. What the launcher makes of the executor input is written to `result`.
package component

import (
	"context"
	"encoding/json"
	"os"
	"testing"

	"github.com/kubeflow/pipelines/api/v2alpha1/go/pipelinespec"
	"github.com/kubeflow/pipelines/backend/src/v2/metadata"
	"github.com/kubeflow/pipelines/backend/src/v2/objectstore"
	"gocloud.dev/blob/fileblob"
	"google.golang.org/protobuf/encoding/protojson"
	"k8s.io/client-go/kubernetes/fake"
)

type sluiceTask struct {
	Input     json.RawMessage
	Component json.RawMessage
	Command   string
	Args      []string
	Bucket    string
	Store     string
	Result    string
}

func TestStepOfSluice(t *testing.T) {
	text, err := os.ReadFile(os.Getenv("SLUICE_TASK"))
	if err != nil {
		t.Fatal(err)
	}
	task, input, component := sluiceTask{}, &pipelinespec.ExecutorInput{}, &pipelinespec.ComponentSpec{}
	if err := json.Unmarshal(text, &task); err != nil {
		t.Fatal(err)
	}
	if err := protojson.Unmarshal(task.Input, input); err != nil {
		t.Fatal(err)
	}
	if err := protojson.Unmarshal(task.Component, component); err != nil {
		t.Fatal(err)
	}
	ctx, kubernetes := context.Background(), &fake.Clientset{}
	options := &fileblob.Options{CreateDir: true, NoTempDir: true, Metadata: fileblob.MetadataDontWrite}
	bucket, err := fileblob.OpenBucket(task.Store, options)
	if err != nil {
		t.Fatal(err)
	}
	config, err := objectstore.ParseBucketConfig(task.Bucket, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := prepareOutputFolders(input); err != nil {
		t.Fatal(err)
	}
	open := &OpenBucketConfig{ctx, kubernetes, "team", config}
	output, _, err := executeV2(ctx, input, component, task.Command, task.Args, bucket, config,
		metadata.NewFakeClient(), "team", kubernetes, "true", "", open)
	if err != nil {
		t.Fatal(err)
	}
	outputs, err := protojson.Marshal(input.GetOutputs())
	if err != nil {
		t.Fatal(err)
	}
	said, err := protojson.Marshal(output)
	if err != nil {
		t.Fatal(err)
	}
	result, _ := json.Marshal(map[string]json.RawMessage{"outputs": outputs, "said": said})
	if err := os.WriteFile(task.Result, result, 0o644); err != nil {
		t.Fatal(err)
	}
}
