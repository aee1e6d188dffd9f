import type {
  CallToolResult,
  ContentBlock,
  GetPromptResult,
  Progress,
  ReadResourceResult,
} from "@modelcontextprotocol/client";
import { useEffect, useRef, useState } from "preact/hooks";
import { tryParseJson } from "../../../lib/json.ts";
import { CLOCK_TICK_MS } from "../limits.ts";
import type { LogLine, Outcome, Run, Runner } from "../run.ts";
import { useStore } from "../store.ts";
import { Failure } from "./failure.tsx";
import { JsonView } from "./json-view.tsx";
import { LongText } from "./long-text.tsx";
import { QuestionView } from "./question.tsx";

/** Everything received for the current or last request. */
export function RunView({ label, runner, reader }: ContentProps & { label: string; runner: Runner }) {
  const run = useStore(runner.run);
  const place = useRef<HTMLElement>(null);
  const cancel = useRef<HTMLButtonElement>(null);
  const status = useRef<HTMLParagraphElement>(null);
  const startedAt = run?.startedAt;
  const isOver = run?.outcome !== undefined;
  const waiting = run?.questions.length;
  useEffect(() => {
    // On a small screen it is below the form.
    if (startedAt !== undefined) place.current?.scrollIntoView({ block: "nearest" });
  }, [startedAt]);
  useEffect(() => {
    // The element with the focus, a question or the cancel button, may be gone.
    const isLost = startedAt !== undefined && document.activeElement === document.body;
    if (isLost) (cancel.current ?? status.current)?.focus({ preventScroll: true });
  }, [startedAt, waiting, isOver]);
  return (
    <section class="run" aria-label={label} ref={place}>
      <p class="run-status" ref={status} tabIndex={-1}>
        <span role="status">{run ? sentence(run) : ""}</span>
        {run && <Clock run={run} />}
      </p>
      {!run && <p class="hint">The result will appear here.</p>}
      {run && !isOver && (
        <p class="buttons">
          <button type="button" class="danger" ref={cancel} onClick={() => runner.cancel()}>
            Cancel
          </button>
        </p>
      )}
      {run && <Heard run={run} reader={reader} />}
    </section>
  );
}

function Heard({ run, reader }: ContentProps & { run: Run }) {
  return (
    <>
      <ProgressView events={run.progress} done={run.outcome !== undefined} />
      {run.questions.map(({ number, question, answer }) => (
        <QuestionView key={number} question={question} answer={answer} />
      ))}
      {run.outcome && <OutcomeView outcome={run.outcome} reader={reader} />}
      <LogView lines={run.log} />
    </>
  );
}

function sentence({ title, outcome, questions }: Run): string {
  if (questions.length > 0) return `${title} has a question`;
  if (!outcome) return `${title} is running`;
  if (outcome.kind === "failed") return `${title} failed`;
  if (outcome.kind === "cancelled") return `${title} was cancelled`;
  if (outcome.kind === "tool" && outcome.result.isError) return `${title} reported an error`;
  return `${title} answered`;
}

function Clock({ run }: { run: Run }) {
  const [, tick] = useState(0);
  const running = run.outcome === undefined;
  useEffect(() => {
    if (!running) return;
    const timer = setInterval(() => tick((count) => count + 1), CLOCK_TICK_MS);
    return () => clearInterval(timer);
  }, [running]);
  return <span class="clock">{duration(run.elapsedMs ?? performance.now() - run.startedAt)}</span>;
}

function duration(ms: number): string {
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

/** The progress of the work: a bar when the total is known, and its messages. */
function ProgressView({ events, done }: { events: readonly Progress[]; done: boolean }) {
  const last = events.at(-1);
  if (!last) return null;
  const messages = events.filter(({ message }) => message !== undefined);
  return (
    <div class="progress">
      {last.total !== undefined && (
        <p>
          <progress value={last.progress} max={last.total} aria-label="Progress" />{" "}
          <span class="hint">
            {last.progress} of {last.total}
          </span>
        </p>
      )}
      {last.total === undefined && messages.length === 0 && (
        <p class="hint">
          {last.progress} {done ? "done" : "so far"}
        </p>
      )}
      {messages.length > 0 && (
        <ol class="lines">
          {messages.map(({ progress, message }) => (
            <li key={progress}>{message}</li>
          ))}
        </ol>
      )}
    </div>
  );
}

const BADGES: Readonly<Record<string, string>> = { debug: "", info: "accent", notice: "accent", warning: "warn" };

function LogView({ lines }: { lines: readonly LogLine[] }) {
  if (lines.length === 0) return null;
  return (
    <section>
      <h3>Log</h3>
      <ol class="lines">
        {lines.map(({ level, logger, data }, index) => (
          <li key={index}>
            <span class={`badge ${BADGES[level] ?? "bad"}`}>{level}</span> {logger && <code>{logger}</code>}{" "}
            {typeof data === "string" ? data : <code>{JSON.stringify(data)}</code>}
          </li>
        ))}
      </ol>
    </section>
  );
}

/** The outcome of a request, by its kind. */
function OutcomeView({ outcome, reader }: ContentProps & { outcome: Outcome }) {
  switch (outcome.kind) {
    case "tool":
      return <ToolResult result={outcome.result} reader={reader} />;
    case "resource":
      return (
        <>
          {outcome.result.contents.map((contents, index) => (
            <ResourceContents key={index} contents={contents} />
          ))}
        </>
      );
    case "prompt":
      return <PromptResult result={outcome.result} reader={reader} />;
    case "failed":
      return (
        <Failure error={outcome.error}>
          {outcome.error.data !== undefined && <JsonView value={outcome.error.data} />}
        </Failure>
      );
    case "cancelled":
      return <p class="notice warn">You cancelled this call. The server was told to stop.</p>;
  }
}

function ToolResult({ result, reader }: ContentProps & { result: CallToolResult }) {
  const { content, structuredContent, _meta } = result;
  const texts = content.map((block) => (block.type === "text" ? block.text : undefined));
  // Servers also send structured content as text, for clients that know no other. It is shown once: a single value as
  // the text, anything else as the tree.
  const isSaid = isScalar(structuredContent) && texts.includes(String(structuredContent));
  const repeats = JSON.stringify(structuredContent);
  const blocks = content.filter(
    (_block, index) => repeats === undefined || JSON.stringify(parsedJson(texts[index] ?? "")) !== repeats,
  );
  return (
    <div class="result">
      {structuredContent !== undefined && !isSaid && (
        <section>
          <h3>Structured content</h3>
          <JsonView value={structuredContent} />
        </section>
      )}
      {blocks.map((block, index) => (
        <Content key={index} block={block} reader={reader} />
      ))}
      {content.length === 0 && structuredContent === undefined && <p class="hint">The result is empty.</p>}
      {_meta && Object.keys(_meta).length > 0 && (
        <details class="more">
          <summary>_meta</summary>
          <JsonView value={_meta} />
        </details>
      )}
    </div>
  );
}

function isScalar(value: unknown): value is string | number | boolean {
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean";
}

function PromptResult({ result, reader }: ContentProps & { result: GetPromptResult }) {
  return (
    <>
      {result.description && <p class="hint">{result.description}</p>}
      <ol class="turns">
        {result.messages.map(({ role, content }, index) => (
          <li key={index}>
            <p class="badge accent">{role}</p>
            <Content block={content} reader={reader} />
          </li>
        ))}
      </ol>
    </>
  );
}

interface ContentProps {
  /** Reads a resource; undefined for one that this server does not offer. */
  readonly reader: (uri: string) => (() => void) | undefined;
}

/** One block of a result, by its type. The page treats its content as text, never as markup. */
function Content({ block, reader }: ContentProps & { block: ContentBlock }) {
  switch (block.type) {
    case "text":
      return <TextContent text={block.text} />;
    case "image":
    case "audio":
      return <Binary base64={block.data} type={block.mimeType} name={block.type} />;
    case "resource":
      return <ResourceContents contents={block.resource} />;
    case "resource_link":
      return <ResourceLink link={block} read={reader(block.uri)} />;
    default:
      return <JsonView value={block} />;
  }
}

function ResourceContents({ contents }: { contents: ReadResourceResult["contents"][number] }) {
  const { uri, mimeType } = contents;
  return (
    <section class="embedded">
      <p class="hint">
        <code>{uri}</code> {mimeType}
      </p>
      {"text" in contents ? (
        <TextContent text={contents.text} />
      ) : (
        <Binary base64={contents.blob} type={mimeType ?? "application/octet-stream"} name={uri} />
      )}
    </section>
  );
}

function TextContent({ text }: { text: string }) {
  const json = parsedJson(text);
  if (json === undefined) return <LongText text={text} label="Text" />;
  return <JsonView value={json} />;
}

/** Parses only objects and lists: a number or a word reads best as it is. */
function parsedJson(text: string): object | undefined {
  return /^\s*[[{]/.test(text) ? (tryParseJson(text) as object | undefined) : undefined;
}

interface Link {
  readonly uri: string;
  readonly name: string;
  readonly title?: string | undefined;
  readonly description?: string | undefined;
  readonly mimeType?: string | undefined;
}

function ResourceLink({ link, read }: { link: Link; read: (() => void) | undefined }) {
  return (
    <section class="embedded">
      <p>
        <strong>{link.title ?? link.name}</strong> <span class="hint">{link.mimeType}</span>
      </p>
      <p>
        <code>{link.uri}</code>
      </p>
      {link.description && <p class="hint pre-line">{link.description}</p>}
      {read && (
        <button type="button" class="small" onClick={read}>
          Read it
        </button>
      )}
    </section>
  );
}

/** Shows bytes by their type: images are shown, audio is played, everything can be saved. Nothing is ever run. */
function Binary({ base64, type, name }: { base64: string; type: string; name: string }) {
  const bytes = Math.floor((base64.length * 3) / 4) - (/=*$/.exec(base64)?.[0].length ?? 0);
  const address = `data:${type};base64,${base64}`;
  return (
    <figure>
      {type.startsWith("image/") && <img src={address} alt={`${name} (${type})`} />}
      {type.startsWith("audio/") && <audio controls src={address} aria-label={`${name} (${type})`} />}
      <figcaption>
        {type}, {bytes.toLocaleString("en")} bytes ·{" "}
        <a href={`data:application/octet-stream;base64,${base64}`} download={fileName(name, type)}>
          Save
        </a>
      </figcaption>
    </figure>
  );
}

function fileName(name: string, type: string): string {
  const last = name.split(/[/\\?#]/).findLast((part) => part !== "") ?? "content";
  if (/\.\w+$/.test(last)) return last;
  const ending = /^[\w-]+\/(?:[\w.-]+\+)?([\w-]+)/.exec(type)?.[1] ?? "bin";
  return `${last.replaceAll(" ", "-")}.${ending}`;
}
