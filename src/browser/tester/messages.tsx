import { useState } from "preact/hooks";
import { SHOWN_MESSAGES } from "./limits.ts";
import { LongText } from "./outcome/long-text.tsx";
import { useStore } from "./store.ts";
import type { Entry, Traffic } from "./traffic.ts";

/** Everything sent over the wire, in order; each message can be opened. */
export function Messages({ traffic }: { traffic: Traffic }) {
  const entries = useStore(traffic.entries);
  return (
    <details class="messages">
      <summary>
        <h3>Messages</h3> <span class="badge">{entries.length}</span>
      </summary>
      <p class="hint">
        What the client and the server sent each other, as it was sent. The last {SHOWN_MESSAGES} are kept.{" "}
        <button type="button" class="small" onClick={() => traffic.clear()}>
          Clear
        </button>
      </p>
      <ol>
        {entries.map((entry) => (
          <li key={entry.number} class={entry.direction}>
            <EntryView entry={entry} />
          </li>
        ))}
      </ol>
    </details>
  );
}

function EntryView({ entry }: { entry: Entry }) {
  const [open, setOpen] = useState(false);
  const { at, direction, label, failed, http, headers, body } = entry;
  const hasMore = body !== undefined || headers.length > 0;
  const title = (
    <>
      <time dateTime={at.toISOString()}>{clock(at)}</time>
      <span class="direction">{direction}</span>
      <span class={failed ? "label failed" : "label"}>{label}</span>
      {http && http !== label && <span class="http">{http}</span>}
    </>
  );
  if (!hasMore) return <p class="line">{title}</p>;
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary class="line">{title}</summary>
      {open && (
        <>
          {headers.length > 0 && (
            <dl class="headers">
              {headers.map(([name, value]) => (
                <div key={name}>
                  <dt>{name}</dt>
                  <dd>{value}</dd>
                </div>
              ))}
            </dl>
          )}
          {body !== undefined && <Body body={body} />}
        </>
      )}
    </details>
  );
}

function Body({ body }: { body: unknown }) {
  const text = typeof body === "string" ? body : JSON.stringify(body, null, 2);
  const [copied, setCopied] = useState("Copy");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied("Copied");
    } catch {
      setCopied("The browser refuses");
    }
  };
  return (
    <div class="snippet">
      <LongText text={text} label="Message" />
      <button type="button" class="copy" onClick={() => void copy()}>
        {copied}
      </button>
    </div>
  );
}

function clock(at: Date): string {
  const time = at.toLocaleTimeString("en-GB", { hour12: false });
  return `${time}.${String(at.getMilliseconds()).padStart(3, "0")}`;
}
