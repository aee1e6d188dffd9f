import type { ComponentChildren } from "preact";

/**
 * Stands in for the Markdown renderer that the form library brings along (scripts/bundle-browser.mjs puts it there).
 * Descriptions are shown as they are written, so its weight would buy nothing.
 */
export function Markdown({ children }: { children: ComponentChildren }) {
  return <>{children}</>;
}
