import type { Tool } from "@modelcontextprotocol/client";
import { useMemo, useState } from "preact/hooks";
import { initialValue, SchemaForm, type SchemaFormProps } from "../form/schema-form.tsx";
import { isSchema, type JsonSchema, type Mistake, mistakes } from "../form/validation.ts";
import { Wrong } from "../outcome/question.tsx";
import type { Outcome, Runner, RunOptions } from "../run.ts";
import type { Connection } from "../session.ts";
import { RunButton } from "./controls.tsx";

interface ToolFormProps {
  readonly connection: Connection;
  readonly runner: Runner;
  readonly tool: Tool;
}

/** The arguments written for each tool, which another connection keeps. */
const drafts = new Map<string, Draft>();

/** The form of a tool begins with these arguments. */
export function fillIn(tool: string, args: object): void {
  drafts.set(tool, { value: args });
}

export function ToolForm({ connection, runner, tool }: ToolFormProps) {
  const { name, inputSchema } = tool;
  const [draft, setDraft] = useState<Draft>(() => drafts.get(name) ?? { value: initialValue(inputSchema) });
  const [attempted, setAttempted] = useState(false);
  const found = useMemo(() => ("value" in draft ? mistakes(inputSchema, draft.value) : []), [inputSchema, draft]);
  const shown = attempted ? found : NONE;
  const change = (next: Draft) => {
    drafts.set(name, next);
    setDraft(next);
  };
  const run = () => {
    if (!runner.isFree || "error" in draft) return;
    const args: Record<string, unknown> = JSON.parse(JSON.stringify(draft.value ?? {}));
    const work = async (options: RunOptions): Promise<Outcome> => ({
      kind: "tool",
      result: await connection.client.callTool({ name, arguments: args, ...connection.meta }, options),
    });
    void runner.start(name, work, args);
  };
  const submit = (event: Event) => {
    event.preventDefault();
    setAttempted(true);
    if (found.length === 0) run();
  };
  return (
    <form onSubmit={submit} noValidate onKeyDown={(event) => sendsForm(event) && submit(event)}>
      {tool.execution?.taskSupport === "required" && <p class="badge warn">for clients with tasks only</p>}
      <ArgumentEditor
        name={`arguments-${name}`}
        schema={inputSchema}
        draft={draft}
        onChange={change}
        mistakes={shown}
      />
      <Wrong count={shown.length} />
      <p class="buttons">
        <RunButton runner={runner} label="Run" />
        {shown.length > 0 && (
          <button type="button" onClick={run}>
            Run anyway
          </button>
        )}
        <button type="button" onClick={() => change({ value: initialValue(inputSchema) })}>
          Reset
        </button>
      </p>
    </form>
  );
}

const NONE: readonly Mistake[] = [];

/** In multi-line fields Enter is a line break, so Ctrl or Cmd with Enter sends. */
function sendsForm({ key, ctrlKey, metaKey }: KeyboardEvent): boolean {
  return key === "Enter" && (ctrlKey || metaKey);
}

/** The arguments being written: a value, or a text that is not JSON yet. */
type Draft = { readonly value: unknown } | { readonly text: string; readonly error: string };

interface ArgumentEditorProps {
  readonly name: string;
  readonly schema: JsonSchema;
  readonly draft: Draft;
  readonly onChange: (draft: Draft) => void;
  /** The mistakes to show; before the first attempt they would only be in the way. */
  readonly mistakes: readonly Mistake[];
}

/** The arguments as a form or as JSON, as the person prefers; both show the same value. */
function ArgumentEditor(props: ArgumentEditorProps) {
  const { name, schema, draft, onChange, mistakes } = props;
  const [asJson, setAsJson] = useState(false);
  const isBroken = "error" in draft;
  return (
    <div class="arguments">
      <div class="switch" role="group" aria-label="How to write the arguments">
        <button type="button" aria-pressed={!asJson} disabled={isBroken} onClick={() => setAsJson(false)}>
          Form
        </button>
        <button type="button" aria-pressed={asJson} onClick={() => setAsJson(true)}>
          JSON
        </button>
      </div>
      {asJson || isBroken ? (
        <RawJson {...{ name, draft, onChange, mistakes }} />
      ) : (
        <ArgumentForm {...{ name, schema, mistakes }} value={draft.value} onChange={(value) => onChange({ value })} />
      )}
    </div>
  );
}

function ArgumentForm(props: SchemaFormProps) {
  const { properties, additionalProperties, type, $ref } = props.schema;
  const isEmpty = isSchema(properties) ? Object.keys(properties).length === 0 : type === "object" && !$ref;
  if (isEmpty && !additionalProperties) return <p class="hint">It takes no arguments.</p>;
  return <SchemaForm {...props} />;
}

interface RawJsonProps {
  readonly name: string;
  readonly draft: Draft;
  readonly onChange: (draft: Draft) => void;
  readonly mistakes: readonly Mistake[];
}

function RawJson({ name, draft, onChange, mistakes }: RawJsonProps) {
  // The person's own spacing stays while they write.
  const [written, setWritten] = useState<{ draft: Draft; text: string }>();
  const text =
    written?.draft === draft
      ? written.text
      : "error" in draft
        ? draft.text
        : JSON.stringify(draft.value ?? {}, null, 2);
  const write = (next: string) => {
    const draft = parseDraft(next);
    setWritten({ draft, text: next });
    onChange(draft);
  };
  return (
    <div class="field">
      <label for={`${name}-json`}>Arguments as JSON</label>
      <textarea
        id={`${name}-json`}
        class="grows mono"
        rows={6}
        spellcheck={false}
        autocomplete="off"
        value={text}
        aria-describedby={`${name}-json-mistakes`}
        aria-invalid={"error" in draft || mistakes.length > 0}
        onInput={(event) => write(event.currentTarget.value)}
      />
      <ul id={`${name}-json-mistakes`} class="mistakes" aria-live="polite">
        {"error" in draft && <li>{draft.error}</li>}
        {mistakes.map(({ path, message }) => (
          <li key={path.join("/") + message}>
            {path.length > 0 && <code>{path.join(".")}</code>} {message}
          </li>
        ))}
      </ul>
    </div>
  );
}

function parseDraft(text: string): Draft {
  let value: unknown;
  try {
    value = JSON.parse(text.trim() === "" ? "{}" : text);
  } catch (error) {
    return { text, error: `This is not JSON yet: ${(error as Error).message}` };
  }
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  return isObject ? { value } : { text, error: "Arguments must be an object: { … }" };
}
