import { isSameDraft, type Draft } from "./draft.ts";
import type { FileTabs } from "./file-tabs.ts";
import { keepDraft } from "./kept-draft.ts";
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
