// The API server's own reading and compiling of a pipeline; test_real_compiler.py lays it over Kubeflow's sources.
package template

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/kubeflow/pipelines/backend/src/apiserver/config/proxy"
	"github.com/kubeflow/pipelines/backend/src/apiserver/model"
)

func TestPipelinesOfSluice(t *testing.T) {
	proxy.InitializeConfigWithEmptyForTests()
	files, err := filepath.Glob(filepath.Join(os.Getenv("SLUICE_PIPELINES"), "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no pipelines in SLUICE_PIPELINES (%v)", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		pipeline, err := New(text, TemplateOptions{})
		if err != nil {
			t.Errorf("%s is not accepted: %v", file, err)
			continue
		}
		run := &model.Run{DisplayName: "run", K8SName: "run", Namespace: "team", ServiceAccount: "sluice-runner"}
		run.PipelineSpec.RuntimeConfig.Parameters = "{}"
		workflow, err := pipeline.RunWorkflow(run, RunWorkflowOptions{RunID: "1", RunAt: 1})
		if err != nil {
			t.Errorf("%s cannot be run: %v", file, err)
			continue
		}
		fmt.Printf("%s %d\n", filepath.Base(file), len(workflow.ToStringForStore()))
	}
}
