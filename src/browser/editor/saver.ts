import type { Review } from "../../contract/review.ts";
import type { Draft } from "../../lib/draft.ts";
import { askToken } from "../shared/ask-token.ts";
import { ask } from "../shared/ask.ts";
import { button, element, tenantBase } from "../shared/dom.ts";
import type { Notices } from "../shared/notices.ts";
import { timeOf } from "../shared/times.ts";
import type { EditApi, SaveOutcome } from "./api.ts";
import { mergeDrafts } from "./draft.ts";
import type { EditedText } from "./edited-text.ts";
import { showBreaking, showEffects } from "./effects.ts";
import type { LiveReview } from "./live-review.ts";

interface SaverParts {
  readonly api: EditApi;
  readonly text: EditedText;
  readonly notices: Notices;
  readonly review: LiveReview;
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
    notices.clear("save", "refused");
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
    const outcome = await api.save(draft, text.base.cid, allowBreaking);
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
    const message = "Not saved: fix the problems below. Nothing was changed.";
    notices.show("refused", "bad", element("p", {}, message));
    const first = problems.find(({ severity }) => severity === "error");
    if (first && draft !== null) text.files.reveal(first);
  }
}

/** Asks if a save may break callers. Escape and the first button say no. */
function askBreaking(review: Review, verb: string): Promise<boolean> {
  return ask({
    title: "This breaks callers",
    content: [
      element("p", {}, "Clients that work today may fail once this is done:"),
      showBreaking(review),
      element("p", { className: "muted" }, "Earlier releases stay reachable by their CID."),
    ],
    no: "Change nothing",
    yes: `${verb} anyway`,
  });
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
      review.servers.length === 0 ? " No server changes." : " In effect now:",
    ),
    ...(review.servers.length === 0 ? [] : [showEffects(review)]),
    ...(links.length === 0 ? [] : [element("p", { className: "links" }, ...links)]),
  ];
}

/**
 * Handles a conflict with a save by another user: merges both texts in the editor, for the user to decide.
 */
async function showConflict({ api, text, notices, review }: SaverParts): Promise<void> {
  const { files, base } = text;
  const theirs = await api.current();
  if (!theirs) {
    text.base = { cid: null, draft: base.draft };
    const message = "Someone else has deleted this meanwhile. Your text is still here; saving creates it again.";
    notices.show("conflict", "warn", element("p", {}, message));
    return;
  }
  const began = base.cid === null ? undefined : await api.version(base.cid);
  const mine = files.draft();
  const { draft, conflicts } = mergeDrafts({ base: began ?? theirs, mine, theirs });
  files.replace(draft);
  files.compareWith(theirs);
  text.base = { cid: theirs.cid, draft: theirs };
  text.keep();
  review.soon();
  const takeTheirs = button("Discard mine, take theirs", () => {
    files.compareWith(undefined);
    files.replace(theirs);
    notices.clear("conflict");
  });
  const asBefore = button("Leave theirs out of mine", () => files.replace(mine));
  notices.show(
    "conflict",
    "warn",
    element(
      "p",
      {},
      element("strong", {}, "Someone else has saved meanwhile"),
      ` (by ${theirs.by}, ${timeOf(theirs.changedAt)}). Nothing is lost: your text is below, and was not saved.`,
    ),
    element("p", {}, conflictWords(conflicts)),
    element("p", {}, "Save replaces their version, which stays in the history."),
    element("div", { className: "choices" }, asBefore, takeTheirs),
  );
}

function conflictWords(conflicts: number): string {
  if (conflicts === 0) {
    return "Their changes are now in your text. The marks show what your save would change in theirs.";
  }
  const places = conflicts === 1 ? "one place was changed by both" : `${conflicts} places were changed by both`;
  return `Their other changes are now in your text; ${places}, and there your text stays. The marks show what your save would change in theirs: take theirs where you prefer it.`;
}
