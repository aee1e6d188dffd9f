import { tenantBase } from "../shared/base.ts";
import type { Review, SaveOutcome } from "./api.ts";
import { askBreaking } from "../shared/ask.ts";
import { showConflict, type ConflictParts } from "./conflict.ts";
import { element } from "../shared/dom.ts";
import type { Draft } from "./draft.ts";
import { showEffects } from "./effects.ts";
import { askToken } from "../shared/ask-token.ts";

export interface SaverParts extends ConflictParts {
  readonly onSaved: () => void;
  /** Receives the action in progress; nothing when it has ended. */
  readonly onState: (text?: string) => void;
}

/** Runs one save at a time: asks where it must, and shows the outcome. Whatever goes wrong, the text stays. */
export class Saver {
  isBusy = false;
  readonly #parts: SaverParts;

  constructor(parts: SaverParts) {
    this.#parts = parts;
  }

  /** Null deletes. `agreed`: the person already knows that it breaks callers. False when nothing was changed. */
  async save(draft: Draft | null, verb: string, agreed = false): Promise<boolean> {
    if (this.isBusy) return false;
    const { notices, onState } = this.#parts;
    this.isBusy = true;
    onState(`${draft === null ? "Deleting" : "Saving"}…`);
    notices.clear("save");
    try {
      return await this.#settle(await this.#send(draft, verb, agreed), draft);
    } finally {
      this.isBusy = false;
      onState();
    }
  }

  /** Undefined when the person declined. */
  async #send(draft: Draft | null, verb: string, allowBreaking: boolean): Promise<SaveOutcome | undefined> {
    const { api, text } = this.#parts;
    const outcome = await api.save(draft, { expected: text.base.cid, allowBreaking });
    if (outcome.kind === "breaking") {
      return (await askBreaking(outcome.review, verb)) ? await this.#send(draft, verb, true) : undefined;
    }
    const mayNow = outcome.kind === "forbidden" && (await askToken(outcome.message));
    return mayNow ? await this.#send(draft, verb, allowBreaking) : outcome;
  }

  async #settle(outcome: SaveOutcome | undefined, draft: Draft | null): Promise<boolean> {
    const { notices } = this.#parts;
    if (!outcome) {
      notices.show("save", "warn", "Nothing was changed. Your text is as you left it.");
      return false;
    }
    switch (outcome.kind) {
      case "saved":
        this.#saved(outcome, draft);
        return true;
      case "refused":
        this.#refused(outcome, draft);
        return false;
      case "moved":
        await showConflict(this.#parts);
        return false;
      default: {
        const message = "message" in outcome ? outcome.message : "it would break callers";
        notices.show("save", "bad", element("p", {}, `Not saved: ${message}. Your text is still here.`));
        return false;
      }
    }
  }

  #saved({ cid, review: found }: SaveOutcome & { kind: "saved" }, draft: Draft | null): void {
    const { text, notices, review, onSaved } = this.#parts;
    text.base = { cid, draft: draft ?? text.files.draft() };
    text.keep();
    if (draft === null) return;
    text.files.compareWith(undefined);
    notices.clear("conflict", "draft");
    notices.show("save", "good", ...savedWords(found));
    review.effects.replaceChildren();
    review.soon();
    onSaved();
  }

  #refused({ problems }: SaveOutcome & { kind: "refused" }, draft: Draft | null): void {
    const { text, notices, review } = this.#parts;
    review.show({ problems, servers: [], breaking: false });
    const message = "Not saved: the problems below are in the way. Nothing was changed.";
    notices.show("save", "bad", element("p", {}, message));
    const first = problems.find(({ severity }) => severity === "error");
    if (first && draft !== null) text.files.reveal(first);
  }
}

function savedWords(review: Review): Node[] {
  const links = review.servers
    .filter(({ outcome }) => outcome === "added" || outcome === "changed")
    .map(({ server }) =>
      element("a", { href: `${tenantBase}/mcp/meta/${encodeURIComponent(server)}` }, `See ${server}`),
    );
  return [
    element(
      "p",
      {},
      element("strong", {}, "Saved."),
      review.servers.length === 0 ? " No server changes by it." : " In effect now:",
    ),
    ...(review.servers.length === 0 ? [] : [showEffects(review)]),
    ...(links.length === 0 ? [] : [element("p", { className: "links" }, ...links)]),
  ];
}
