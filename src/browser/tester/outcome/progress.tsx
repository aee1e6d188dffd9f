import type { Progress } from "@modelcontextprotocol/client";
import type { LogLine } from "../run.ts";

/** The progress of the work: a bar when the total is known, and its messages. */
export function ProgressView({ events, done }: { events: readonly Progress[]; done: boolean }) {
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

export function LogView({ lines }: { lines: readonly LogLine[] }) {
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
