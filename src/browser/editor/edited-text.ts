import { isSameDraft, type Draft } from "./draft.ts";
import type { FileTabs } from "./file-tabs.ts";
import { keepDraft } from "./kept-draft.ts";
import type { Setup } from "./setup.ts";

const KEEP_AFTER_MS = 250;

/** What a text began with, and goes over when it is saved. A null CID: nothing stands yet. */
export interface Base {
  readonly cid: string | null;
  readonly draft: Draft;
}

/** What a person writes, in its editors. What is not saved is kept in the browser over a reload. */
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

  /** Whether there is something to save: what does not stand yet can be saved as it is. */
  isDirty(): boolean {
    return this.base.cid === null || this.isTouched();
  }

  /** Whether somebody has written: what was begun with is worth nothing until then. */
  isTouched(): boolean {
    return !isSameDraft(this.files.draft(), this.base.draft);
  }

  /** Puts a text that stands in the place of what is here. */
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
