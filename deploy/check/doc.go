// Package check holds the files of deploy, the Dockerfile and the workflow against the programs and formats that they are for: with the
// parsers of BuildKit, Compose, Kubernetes and GitHub's workflows, with systemd's own tools, and with rmatail. The stages of the
// Dockerfile run here without a container engine.
//
// It is a module of its own, so that none of these parsers is a dependency of the product.
package check
