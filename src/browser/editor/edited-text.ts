import type { Draft } from "../../lib/draft.ts";
import { button, element } from "../shared/dom.ts";
import type { Notices } from "../shared/notices.ts";
import { timeOf } from "../shared/times.ts";
import { isSameDraft } from "./draft.ts";
import type { FileTabs } from "./file-tabs.ts";
import type { Setup } from "./setup.ts";

const KEEP_AFTER_MS = 250;

/** The version that an edit began with, and that a save replaces. A null CID: there is none yet. */
export interface Base {
  readonly cid: string | null;
  readonly draft: Draft;
}

/** The text that a person writes, in its editors. Unsaved text is kept in the browser across a reload. */
export class EditedText {
  readonly files: FileTabs;
  base: Base;
  readonly #keptAs: string;
  #keepTimer = 0;

  constructor({ cid, entry, files: texts, api }: Setup, files: FileTabs) {
    this.files = files;
    this.base = { cid, draft: { entry, files: texts } };
    this.#keptAs = api;
  }

  /** True when there is something to save: a new text can be saved as it is. */
  isDirty(): boolean {
    return this.base.cid === null || this.isTouched();
  }

  /** True when the person has written something: until then, the text is not worth keeping. */
  isTouched(): boolean {
    return !isSameDraft(this.files.draft(), this.base.draft);
  }

  /** Replaces the text by a saved version. */
  takeOver(now: Base): void {
    this.base = now;
    this.files.replace(now.draft);
  }

  keep(): void {
    const { cid } = this.base;
    keepDraft(this.#keptAs, this.isTouched() ? { draft: this.files.draft(), base: cid, at: Date.now() } : undefined);
  }

  keepSoon(): void {
    clearTimeout(this.#keepTimer);
    this.#keepTimer = window.setTimeout(() => this.keep(), KEEP_AFTER_MS);
  }
}

/** If a text was left unsaved at `url`, says so and lets the person continue with it. */
export function offerKeptDraft(url: string, text: EditedText, notices: Notices): void {
  const kept = keptDraft(url);
  if (!kept || isSameDraft(kept.draft, text.base.draft)) return;
  const later = kept.base === text.base.cid ? "" : " Someone has saved since; when you save, you will see both.";
  notices.show(
    "draft",
    "warn",
    element("p", {}, `You have unsaved text from ${timeOf(kept.at)}.${later}`),
    element(
      "div",
      { className: "choices" },
      button("Continue with it", () => {
        // A save reports a conflict if the text has changed since this base.
        text.base = { ...text.base, cid: kept.base };
        text.files.replace(kept.draft);
        notices.clear("draft");
      }),
      button("Discard it", () => {
        keepDraft(url, undefined);
        notices.clear("draft");
      }),
    ),
  );
}

/** Unsaved texts, kept in this browser so that nothing is lost with a page. */
interface KeptDraft {
  readonly draft: Draft;
  /** The version when the editing began; null if there was none. */
  readonly base: string | null;
  /** Milliseconds since the epoch. */
  readonly at: number;
}

function keptDraft(url: string): KeptDraft | undefined {
  try {
    return JSON.parse(localStorage.getItem(keyOf(url)) ?? "null") ?? undefined;
  } catch {
    // No storage, or not what was stored there: then nothing was kept.
    return undefined;
  }
}

function keepDraft(url: string, kept: KeptDraft | undefined): void {
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
