import assert from "node:assert/strict";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { parse, parseAllDocuments } from "yaml";
import { knownVariables } from "../../src/compose/unknown-settings.ts";
import { packageRoot } from "../../src/config.ts";
import { run } from "../support/compiled-copy.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";

const folder = join(packageRoot, "deploy");
const files = readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((file) => /\.|file$/.test(file));
const text = (file: string): string => readFileSync(join(folder, file), "utf8");

describe("the files of deploy/", () => {
  it("use settings that exist", () => {
    assert.ok(files.length >= 6);
    for (const file of files) {
      const unknown = [...text(file).matchAll(/\bBERTH_[A-Z_]+/g)].filter(([name]) => !knownVariables.includes(name));
      assert.deepEqual(unknown.map(String), [], file);
    }
  });

  it("serve a container as a user without capabilities, on a read-only file system", () => {
    for (const file of ["compose.yaml", "compose.cluster.yaml"]) {
      const { services } = parse(text(file), { merge: true }) as { services: Record<string, Record<string, unknown>> };
      const nodes = Object.values(services).filter(({ image }) => image === "berth");
      assert.equal(nodes.length, file === "compose.yaml" ? 1 : 3);
      for (const node of nodes) {
        assert.equal(node["read_only"], true);
        assert.deepEqual(node["cap_drop"], ["ALL"]);
        assert.ok((node["security_opt"] as string[]).includes("no-new-privileges=true"));
      }
    }
    assert.match(text("Containerfile"), /^USER 10001$/m);
  });

  it("describe one Kubernetes deployment whose parts refer to each other", () => {
    // oxlint-disable-next-line typescript/no-explicit-any -- a manifest has any shape
    const all: any[] = parseAllDocuments(text("kubernetes/berth.yaml")).map((each) => each.toJS());
    const find = (kind: string): any => all.find((each) => each.kind === kind); // oxlint-disable-line typescript/no-explicit-any
    const { spec } = find("Deployment");
    const pod = spec.template.spec;
    assert.equal(pod.enableServiceLinks, false);
    const [container] = pod.containers;
    assert.deepEqual(container.securityContext.capabilities, { drop: ["ALL"] });
    assert.equal(container.securityContext.readOnlyRootFilesystem, true);
    const volumes = pod.volumes.map(({ name }: { name: string }) => name);
    assert.deepEqual(container.volumeMounts.map(({ name }: { name: string }) => name).sort(), volumes.sort());
    const ports = new Set(container.ports.map(({ name }: { name: string }) => name));
    for (const probe of ["startupProbe", "readinessProbe", "livenessProbe"]) {
      assert.ok(ports.has(container[probe].httpGet.port), probe);
    }
    const { labels } = spec.template.metadata;
    for (const selector of [
      spec.selector.matchLabels,
      find("Service").spec.selector,
      find("NetworkPolicy").spec.podSelector.matchLabels,
    ]) {
      assert.deepEqual(selector, labels);
    }
    for (const each of all)
      assert.equal(each.kind === "Namespace" ? each.metadata.name : each.metadata.namespace, "berth");
  });

  it("contain a unit that systemd accepts and finds little exposed", async (t) => {
    const unit = join(temporaryFolder(t), "berth.service");
    // systemd checks that the program exists.
    writeFileSync(unit, text("systemd/berth.service").replace("/usr/bin/node", process.execPath));
    const { stderr } = await run("systemd-analyze", ["verify", unit]);
    assert.equal(stderr, "");
    const { stdout } = await run("systemd-analyze", ["security", "--offline=true", "--no-pager", unit]);
    const [, exposure] = /exposure level for berth.service: ([\d.]+)/.exec(stdout)!;
    assert.ok(Number(exposure) <= 3.5, exposure);
  });
});
