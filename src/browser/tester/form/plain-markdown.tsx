import type { ComponentChildren } from "preact";

/**
 * Replaces the form library's Markdown renderer (by scripts/bundle-browser.mjs). Descriptions are shown as they are
 * written, so it would add weight for nothing.
 */
export function Markdown({ children }: { children: ComponentChildren }) {
  return <>{children}</>;
}
