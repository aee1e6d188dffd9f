import type { ComponentChildren } from "preact";
import type { Explained } from "../explain.ts";

/** An error in words, with more about it below. */
export function Failure({ error, children }: { error: Explained; children?: ComponentChildren }) {
  return (
    <div class="notice bad">
      <p>
        <strong>{error.title}</strong>
      </p>
      <p class="pre-line">{error.message}</p>
      {children}
    </div>
  );
}
