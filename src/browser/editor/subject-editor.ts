import type { Extension } from "@codemirror/state";
import { tenantBase } from "../base.ts";
import { EditApi, type Review, type SaveOutcome } from "./api.ts";
import { ask, askBreaking } from "./ask.ts";
import { openCodeEditor } from "./code-editor.ts";
import { button, element } from "./dom.ts";
import { isSameDraft, type Draft } from "./draft.ts";
import { showEffects } from "./effects.ts";
import { openFileTabs } from "./file-tabs.ts";
import { keepDraft, keptDraft } from "./kept-draft.ts";
import { languageOf } from "./language.ts";
import { mergeDrafts } from "./merge-drafts.ts";
import { openNotices } from "./notices.ts";
import { showProblems } from "./problem-list.ts";
import { askToken } from "./token.ts";

/** What the page says about the editor that stands in it. */
export interface Setup extends Draft {
  readonly kind: "variable" | "definition" | "entry";
  readonly name: string;
  /** What stands; null: nothing yet. */
  readonly cid: string | null;
  readonly language: string;
  readonly api: string;
  readonly readOnly: boolean;
  readonly styleNonce: string;
}

const WHAT = { variable: "the variable", definition: "the definition of", entry: "the entry of" } as const;
const REVIEW_AFTER_MS = 500;
const KEEP_AFTER_MS = 250;

/**
 * The editor of one variable, definition or entry: what a person writes, what is wrong with it, what saving it would
 * do, and the save itself. Whatever goes wrong, the text stays; what is not saved is kept over a reload.
 */
export interface SubjectEditor {
  readonly element: HTMLElement;
  isDirty(): boolean;
  /** Keeps what is not saved for the next time, at once. */
  keep(): void;
  save(): Promise<void>;
  /** Saves an earlier version, through the same checks. */
  restore(cid: string): Promise<void>;
  /** Looks whether somebody else saved: shows their text where there is none of mine, and else says so. */
  refresh(): Promise<void>;
}

export interface SubjectEditorOptions {
  readonly extensions: Extension;
  readonly onSaved: () => void;
}

export function openSubjectEditor(setup: Setup, { extensions, onSaved }: SubjectEditorOptions): SubjectEditor {
  const api = new EditApi(setup.api);
  const notices = openNotices();
  const problems = element("div", { className: "editor-problems" });
  const effects = element("div", { className: "editor-effects" });
  effects.setAttribute("aria-live", "polite");
  const state = element("p", { className: "editor-state muted" });
  state.setAttribute("role", "status");
  const hint = element(
    "p",
    { className: "muted small", id: `leave-${setup.kind}` },
    "Tab indents. To leave the editor by keyboard, press Escape and then Tab. Ctrl+S or ⌘S saves, Ctrl+Space completes.",
  );

  /** What my text began with, and goes over when it is saved. */
  let base: { cid: string | null; draft: Draft } = {
    cid: setup.cid,
    draft: { entry: setup.entry, files: setup.files },
  };
  let saving = false;
  let edits = 0;
  let reviewing = new AbortController();
  let reviewTimer = 0;
  let keepTimer = 0;

  const files = openFileTabs({
    draft: base.draft,
    several: setup.kind === "definition" && setup.language === "typescript" && !setup.readOnly,
    open: (path, text) =>
      openCodeEditor({
        text,
        label: setup.kind === "definition" ? `Source of ${path}` : `Value of ${setup.name}`,
        hintId: hint.id,
        readOnly: setup.readOnly,
        styleNonce: setup.styleNonce,
        extensions: [languageOf(path, setup.language), extensions],
        onChange: () => changed(),
      }),
    onChange: () => changed(),
  });
  const saveButton = button(setup.cid === null ? "Create" : "Save", () => void save(), "primary");
  const deleteButton = button("Delete…", () => void remove(), "danger");

  const isDirty = (): boolean => base.cid === null || !isSameDraft(files.draft(), base.draft);

  const changed = (): void => {
    if (setup.readOnly) return;
    edits++;
    showState();
    clearTimeout(keepTimer);
    keepTimer = window.setTimeout(keep, KEEP_AFTER_MS);
    reviewSoon();
  };

  const keep = (): void => {
    const draft = files.draft();
    const same = isSameDraft(draft, base.draft);
    keepDraft(setup.api, same ? undefined : { draft, base: base.cid, at: Date.now() });
  };

  const showState = (text?: string): void => {
    const dirty = isDirty();
    saveButton.disabled = saving || !dirty;
    deleteButton.hidden = base.cid === null;
    state.textContent =
      text ?? (base.cid === null ? "Not saved yet" : dirty ? "Unsaved changes" : "No unsaved changes");
  };

  const reviewSoon = (): void => {
    reviewing.abort();
    clearTimeout(reviewTimer);
    reviewTimer = window.setTimeout(() => void review(), REVIEW_AFTER_MS);
  };

  const review = async (): Promise<void> => {
    reviewing = new AbortController();
    const { signal } = reviewing;
    try {
      const found = await api.review(files.draft(), signal);
      if (signal.aborted) return;
      show(found);
    } catch (error) {
      if (!signal.aborted) problems.replaceChildren(element("p", { className: "muted" }, (error as Error).message));
    }
  };

  const show = (found: Review): void => {
    files.showProblems(found.problems);
    problems.replaceChildren(
      found.problems.length === 0
        ? element("p", { className: "muted" }, "No problems.")
        : showProblems(found.problems, (problem) => files.reveal(problem)),
    );
    const dirty = isDirty();
    effects.replaceChildren(
      ...(dirty && found.servers.length > 0
        ? [element("h3", {}, "What saving would change"), showEffects(found)]
        : dirty && !found.problems.some(({ severity }) => severity === "error")
          ? [element("p", { className: "muted" }, "Saving this changes no server.")]
          : []),
    );
  };

  /** One save at a time; asks where it must, and tells what came of it. */
  const saveDraft = async (draft: Draft | null, verb: string, agreed = false): Promise<boolean> => {
    if (saving) return false;
    saving = true;
    showState(`${draft === null ? "Deleting" : "Saving"}…`);
    notices.clear("save");
    try {
      return await settle(await send(draft, verb, agreed), draft);
    } finally {
      saving = false;
      showState();
    }
  };

  /** Undefined when the person was asked and said no. */
  const send = async (draft: Draft | null, verb: string, allowBreaking: boolean): Promise<SaveOutcome | undefined> => {
    const outcome = await api.save(draft, { expected: base.cid, allowBreaking });
    if (outcome.kind === "breaking") {
      return (await askBreaking(outcome.review, verb)) ? await send(draft, verb, true) : undefined;
    }
    if (outcome.kind === "forbidden" && (await askToken(outcome.message)))
      return await send(draft, verb, allowBreaking);
    return outcome;
  };

  const settle = async (outcome: SaveOutcome | undefined, draft: Draft | null): Promise<boolean> => {
    if (!outcome) {
      notices.show("save", "warn", "Nothing was changed. Your text is as you left it.");
      return false;
    }
    if (outcome.kind === "saved") {
      base = { cid: outcome.cid, draft: draft ?? files.draft() };
      keep();
      if (draft === null) return true;
      files.compareWith(undefined);
      notices.clear("conflict", "draft");
      saveButton.textContent = "Save";
      notices.show("save", "good", ...savedWords(outcome.review));
      effects.replaceChildren();
      reviewSoon();
      onSaved();
      return true;
    }
    if (outcome.kind === "refused") {
      show({ problems: outcome.problems, servers: [], breaking: false });
      const first = outcome.problems.find(({ severity }) => severity === "error");
      notices.show(
        "save",
        "bad",
        element("p", {}, "Not saved: the problems below are in the way. Nothing was changed."),
      );
      if (first && draft !== null) files.reveal(first);
    } else if (outcome.kind === "moved") {
      await showConflict();
    } else {
      const message = "message" in outcome ? outcome.message : "it would break callers";
      notices.show("save", "bad", element("p", {}, `Not saved: ${message}. Your text is still here.`));
    }
    return false;
  };

  const save = async (): Promise<void> => {
    if (setup.readOnly || !isDirty()) return;
    const before = edits;
    const draft = files.draft();
    const creates = base.cid === null;
    // A page that was made for nothing yet has no history; after the save there is one.
    if ((await saveDraft(draft, "Save")) && creates && before === edits) location.assign(addressOf(setup));
  };

  const restore = async (cid: string): Promise<void> => {
    const draft = await api.version(cid);
    if (!draft) {
      notices.show("save", "bad", "This version is not there any more.");
      return;
    }
    if (isTouched() && !(await askDiscard())) return;
    if (!(await saveDraft(draft, "Restore"))) return;
    files.replace(draft);
  };

  const refresh = async (): Promise<void> => {
    if (saving || setup.readOnly) return;
    const now = await api.current().catch(() => undefined);
    if (!now || now.cid === base.cid || saving) return;
    if (isTouched()) {
      notices.show(
        "conflict",
        "warn",
        `Someone else saved meanwhile (by ${now.by}). When you save, you will see both texts.`,
      );
      return;
    }
    base = { cid: now.cid, draft: now };
    files.replace(now);
  };

  /** Asks once, with all that it does. */
  const remove = async (): Promise<void> => {
    const found = await api.review(null, new AbortController().signal).catch(() => undefined);
    const sure = await ask({
      title: `Delete ${WHAT[setup.kind]} ${setup.name}?`,
      content: [
        ...(found && found.servers.length > 0 ? [element("p", {}, "This changes:"), showEffects(found)] : []),
        element("p", { className: "muted" }, "The history stays: an earlier version can be restored from there."),
      ],
      no: "Keep it",
      yes: "Delete",
    });
    if (!sure || !(await saveDraft(null, "Delete", found?.breaking === true))) return;
    location.assign(addressOf(setup));
  };

  /** Somebody else saved after this page was loaded: both texts come together in the editor, and the person decides. */
  const showConflict = async (): Promise<void> => {
    const theirs = await api.current();
    if (!theirs) {
      base = { cid: null, draft: base.draft };
      saveButton.textContent = "Create";
      notices.show(
        "conflict",
        "warn",
        element("p", {}, "Someone else deleted this meanwhile. Your text is still here; saving it makes it anew."),
      );
      return;
    }
    const began = base.cid === null ? undefined : await api.version(base.cid);
    const mine = files.draft();
    const { draft, conflicts } = mergeDrafts({ base: began ?? theirs, mine, theirs });
    files.replace(draft);
    files.compareWith(theirs);
    base = { cid: theirs.cid, draft: theirs };
    keep();
    reviewSoon();
    const takeTheirs = button("Drop mine, take theirs", () => {
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
        element("strong", {}, "Someone else saved meanwhile"),
        ` (by ${theirs.by}, ${timeOf(theirs.changedAt)}). Nothing is lost: your text is below, and was not saved.`,
      ),
      element("p", {}, conflictWords(conflicts)),
      element("p", {}, "Save goes over their version, which stays in the history."),
      element("div", { className: "choices" }, asBefore, takeTheirs),
    );
  };

  const offerKeptDraft = (): void => {
    const kept = keptDraft(setup.api);
    if (!kept || isSameDraft(kept.draft, base.draft)) return;
    const later = kept.base === base.cid ? "" : " Someone saved since; when you save, you will see both.";
    notices.show(
      "draft",
      "warn",
      element("p", {}, `There is text of yours from ${timeOf(kept.at)} that was not saved.${later}`),
      element(
        "div",
        { className: "choices" },
        button("Go on with it", () => {
          // What it began with decides whether somebody was faster.
          base = { ...base, cid: kept.base };
          files.replace(kept.draft);
          notices.clear("draft");
        }),
        button("Discard it", () => {
          keepDraft(setup.api, undefined);
          notices.clear("draft");
        }),
      ),
    );
  };

  const root = element(
    "div",
    { className: "editor-body" },
    notices.element,
    files.element,
    setup.readOnly
      ? ""
      : element(
          "div",
          { className: "editor-bar" },
          state,
          element("div", { className: "choices" }, deleteButton, saveButton),
        ),
    hint,
    problems,
    effects,
  );
  root.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "s" || !(event.ctrlKey || event.metaKey) || event.altKey) return;
    event.preventDefault();
    void save();
  });
  showState();
  if (!setup.readOnly) {
    offerKeptDraft();
    void review();
  }
  return { element: root, isDirty: () => !setup.readOnly && isTouched(), keep, save, restore, refresh };

  /** What was begun with is worth nothing until somebody writes. */
  function isTouched(): boolean {
    return !isSameDraft(files.draft(), base.draft);
  }
}

function askDiscard(): Promise<boolean> {
  return ask({
    title: "You have unsaved changes",
    content: [element("p", {}, "Restoring an earlier version puts it in the place of your text.")],
    no: "Go back to my text",
    yes: "Restore all the same",
  });
}

function conflictWords(conflicts: number): string {
  if (conflicts === 0) {
    return "Their changes are in your text now. What is marked is what your save would change of theirs.";
  }
  const places = conflicts === 1 ? "one place was changed by both" : `${conflicts} places were changed by both`;
  return `Their other changes are in your text now; ${places}, and there it says what you wrote. What is marked is what your save would change of theirs: take theirs where you like it better.`;
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

function addressOf({ kind, name }: Setup): string {
  return `${tenantBase}/${kind === "variable" ? "variables" : "servers"}/${encodeURIComponent(name)}`;
}

function timeOf(at: number): string {
  return new Date(at).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
}
