import { type Resource, type ResourceTemplateType, UriTemplate } from "@modelcontextprotocol/client";
import { useState } from "preact/hooks";
import type { Runner } from "../run.ts";
import type { Connection } from "../session.ts";
import { ArgumentFields, Chooser, RunButton, type Values } from "./controls.tsx";

interface ResourcesProps {
  readonly connection: Connection;
  readonly runner: Runner;
  readonly resources: readonly Resource[];
  readonly templates: readonly ResourceTemplateType[];
  /** A URI or a template. */
  readonly chosen: string | undefined;
  readonly choose: (uri: string) => void;
}

export function ResourcesPanel({ connection, runner, resources, templates, chosen, choose }: ResourcesProps) {
  const [values, setValues] = useState<Values>({});
  const template =
    templates.find(({ uriTemplate }) => uriTemplate === chosen) ?? (resources.length === 0 ? templates[0] : undefined);
  const resource = template ? undefined : (resources.find(({ uri }) => uri === chosen) ?? resources[0]);
  const offer = template ?? resource;
  if (!offer) return <p class="hint">This server has no resources.</p>;

  const pattern = template && new UriTemplate(template.uriTemplate);
  const uri = pattern ? pattern.expand(values) : (resource?.uri ?? "");
  const submit = (event: Event) => {
    event.preventDefault();
    readResource(connection, runner, uri);
  };
  const complete = async (name: string, value: string, others: Values) => {
    const ref = { type: "ref/resource" as const, uri: template?.uriTemplate ?? "" };
    const { completion } = await connection.client.complete({
      ref,
      argument: { name, value },
      context: { arguments: { ...others } },
    });
    return completion.values;
  };
  return (
    <>
      <Chooser
        label="Resource"
        value={template?.uriTemplate ?? uri}
        onChange={choose}
        choices={[
          ...resources.map(({ uri, name, title }) => ({ value: uri, label: title ?? name, group: "Resources" })),
          ...templates.map((each) => ({
            value: each.uriTemplate,
            label: each.title ?? each.name,
            group: "Templates",
          })),
        ]}
      />
      <form onSubmit={submit}>
        {offer.description && <p class="pre-line description">{offer.description}</p>}
        {pattern && (
          <ArgumentFields
            args={pattern.variableNames.map((name) => ({ name, required: false }))}
            values={values}
            onChange={setValues}
            complete={connection.completes ? complete : undefined}
          />
        )}
        <p>
          <code>{uri}</code> <span class="hint">{offer.mimeType}</span>
        </p>
        <p class="buttons">
          <RunButton runner={runner} label="Read" />
        </p>
      </form>
    </>
  );
}

export function readResource(connection: Connection, runner: Runner, uri: string): void {
  void runner.start(uri, async (options) => ({
    kind: "resource",
    result: await connection.client.readResource({ uri, ...connection.meta }, { ...options, cacheMode: "bypass" }),
  }));
}

/** True when the server lists this resource. */
export function offersResource(
  uri: string,
  resources: readonly Resource[],
  templates: readonly ResourceTemplateType[],
): boolean {
  if (resources.some((resource) => resource.uri === uri)) return true;
  return templates.some(({ uriTemplate }) => new UriTemplate(uriTemplate).match(uri) !== null);
}
