import { useState } from "preact/hooks";
import { OPEN_JSON_LEVELS, SHOWN_JSON_MEMBERS } from "../limits.ts";

/** A JSON value whose objects and lists can be opened and closed. */
export function JsonView({ value }: { value: unknown }) {
  return (
    <div class="json" tabIndex={0} role="group" aria-label="JSON">
      <Value value={value} level={0} />
    </div>
  );
}

function Value({ value, level }: { value: unknown; level: number }) {
  if (typeof value !== "object" || value === null) return <Scalar value={value} />;
  const isList = Array.isArray(value);
  const members = Object.entries(value);
  if (members.length === 0) return <span>{isList ? "[]" : "{}"}</span>;
  return (
    <details open={level < OPEN_JSON_LEVELS}>
      <summary>{isList ? `[ ${count(members.length, "item")} ]` : `{ ${count(members.length, "member")} }`}</summary>
      <Members {...{ members, level }} />
    </details>
  );
}

function Members({ members, level }: { members: readonly (readonly [string, unknown])[]; level: number }) {
  const [shown, setShown] = useState(SHOWN_JSON_MEMBERS);
  return (
    <ul>
      {members.slice(0, shown).map(([name, each]) => (
        <li key={name}>
          <span class="key">{name}</span>: <Value value={each} level={level + 1} />
        </li>
      ))}
      {members.length > shown && (
        <li>
          <button type="button" class="small" onClick={() => setShown(shown + SHOWN_JSON_MEMBERS)}>
            {members.length - shown} more
          </button>
        </li>
      )}
    </ul>
  );
}

function Scalar({ value }: { value: unknown }) {
  return <span class={typeof value}>{typeof value === "string" ? JSON.stringify(value) : String(value)}</span>;
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}
