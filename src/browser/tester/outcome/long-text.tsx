import { useState } from "preact/hooks";
import { SHOWN_TEXT_CHARS } from "../limits.ts";

/** A text as it is, line breaks and all; the rest of a very long one is shown on request. */
export function LongText({ text, label }: { text: string; label: string }) {
  const [all, setAll] = useState(false);
  const rest = text.length - SHOWN_TEXT_CHARS;
  const isCut = rest > 0 && !all;
  return (
    <>
      <pre class="text" tabIndex={0} role="group" aria-label={label}>
        {isCut ? text.slice(0, SHOWN_TEXT_CHARS) : text}
      </pre>
      {isCut && (
        <button type="button" class="small" onClick={() => setAll(true)}>
          Show {rest.toLocaleString("en")} more characters
        </button>
      )}
    </>
  );
}
