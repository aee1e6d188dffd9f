import type { Draft } from "./draft.ts";

/** Unsaved texts, kept in this browser so that nothing is lost with a page. */
export interface KeptDraft {
  readonly draft: Draft;
  /** The version when the editing began; null if there was none. */
  readonly base: string | null;
  /** Milliseconds since the epoch. */
  readonly at: number;
}

export function keptDraft(url: string): KeptDraft | undefined {
  try {
    return JSON.parse(localStorage.getItem(keyOf(url)) ?? "null") ?? undefined;
  } catch {
    // No storage, or not what was stored there: then nothing was kept.
    return undefined;
  }
}

export function keepDraft(url: string, kept: KeptDraft | undefined): void {
  try {
    if (kept) localStorage.setItem(keyOf(url), JSON.stringify(kept));
    else localStorage.removeItem(keyOf(url));
  } catch {
    // Full, or forbidden: the page still asks before it is left.
  }
}

function keyOf(url: string): string {
  return `berth:draft:${url}`;
}
