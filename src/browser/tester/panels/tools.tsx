import type { Tool } from "@modelcontextprotocol/client";
import { useMemo, useState } from "preact/hooks";
import type { Connection } from "../connection.ts";
import { ArgumentEditor, type Draft } from "../form/argument-editor.tsx";
import { initialValue } from "../form/initial-value.ts";
import { type Mistake, mistakes } from "../form/validation.ts";
import { Wrong } from "../outcome/question.tsx";
import type { Runner } from "../run.ts";
import { Chooser } from "./chooser.tsx";
import { RunButton } from "./run-buttons.tsx";

interface ToolsProps {
  readonly connection: Connection;
  readonly runner: Runner;
  readonly tools: readonly Tool[];
  readonly chosen: string | undefined;
  readonly choose: (name: string) => void;
}

export function ToolsPanel({ tools, chosen, choose, ...rest }: ToolsProps) {
  // A tool's draft is still there when the person comes back to it.
  const [drafts] = useState(() => new Map<string, Draft>());
  const tool = tools.find(({ name }) => name === chosen) ?? tools[0];
  if (!tool) return <p class="hint">This server has no tools.</p>;
  return (
    <>
      {chosen !== undefined && tool.name !== chosen && <p class="notice warn">There is no tool {chosen} any more.</p>}
      <Chooser
        label="Tool"
        value={tool.name}
        onChange={choose}
        choices={tools.map(({ name, title }) => ({ value: name, label: title ? `${name}: ${title}` : name }))}
      />
      <ToolForm key={tool.name} {...rest} tool={tool} drafts={drafts} />
    </>
  );
}

interface ToolFormProps extends Pick<ToolsProps, "connection" | "runner"> {
  readonly tool: Tool;
  readonly drafts: Map<string, Draft>;
}

function ToolForm({ connection, runner, tool, drafts }: ToolFormProps) {
  const { name, inputSchema, description } = tool;
  const [draft, setDraft] = useState<Draft>(() => drafts.get(name) ?? { value: initialValue(inputSchema) });
  const [attempted, setAttempted] = useState(false);
  const found = useMemo(() => ("value" in draft ? mistakes(inputSchema, draft.value) : []), [inputSchema, draft]);
  const shown = attempted ? found : NONE;
  const change = (next: Draft) => {
    drafts.set(name, next);
    setDraft(next);
  };
  const run = () => {
    if (runner.running || "error" in draft) return;
    const args = JSON.parse(JSON.stringify(draft.value ?? {}));
    void runner.start(name, async (options) => ({
      kind: "tool",
      result: await connection.client.callTool({ name, arguments: args, ...connection.meta }, options),
    }));
  };
  const submit = (event: Event) => {
    event.preventDefault();
    setAttempted(true);
    if (found.length === 0) run();
  };
  return (
    <form onSubmit={submit} noValidate onKeyDown={(event) => sendsForm(event) && submit(event)}>
      <Hints tool={tool} />
      {description && <p class="pre-line description">{description}</p>}
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

function Hints({ tool: { annotations = {}, execution } }: { tool: Tool }) {
  const { readOnlyHint, destructiveHint, idempotentHint, openWorldHint } = annotations;
  return (
    <p class="badges">
      {readOnlyHint && <span class="badge good">read-only</span>}
      {!readOnlyHint && destructiveHint && <span class="badge bad">destructive</span>}
      {!readOnlyHint && idempotentHint && <span class="badge">idempotent</span>}
      {openWorldHint && <span class="badge">open world</span>}
      {execution?.taskSupport === "required" && <span class="badge warn">for clients with tasks only</span>}
    </p>
  );
}
