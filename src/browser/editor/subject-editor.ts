import type { Extension } from "@codemirror/state";
import type { Draft } from "../../lib/draft.ts";
import type { Problem } from "../../lib/problem.ts";
import { readEntryText } from "../settings/entry-value.ts";
import { ask } from "../shared/ask.ts";
import { button, element } from "../shared/dom.ts";
import { openNotices, type Notices } from "../shared/notices.ts";
import { EditApi } from "./api.ts";
import { openCodeEditor } from "./code-editor.ts";
import { EditedText, offerKeptDraft } from "./edited-text.ts";
import { showEffects } from "./effects.ts";
import { openFileTabs, type FileTabs } from "./file-tabs.ts";
import { openFormView } from "./form-view.ts";
import { languageOf } from "./language.ts";
import { openLiveReview } from "./live-review.ts";
import { Saver } from "./saver.ts";
import { addressOf, type Setup } from "./setup.ts";

/**
 * The editor of one variable, definition or entry: the text, its problems, the effects of saving it, and the save
 * itself. Whatever goes wrong, the text stays; unsaved text is kept across a reload.
 */
export interface SubjectEditor {
  readonly element: HTMLElement;
  isDirty(): boolean;
  /** Keeps unsaved text for the next time, at once. */
  keep(): void;
  save(): Promise<void>;
  /** Saves an earlier version, through the same checks. */
  restore(cid: string): Promise<void>;
  /** Saves the current entry with these grants, through the same checks. */
  grant(grants: readonly Grant[]): Promise<void>;
  /** Checks whether another user has saved: shows that text, or a notice if this text has unsaved changes. */
  refresh(): Promise<void>;
}

/** A field of an entry, and what it is to list. */
export interface Grant {
  readonly field: string;
  readonly value: string;
}

export interface SubjectEditorOptions {
  readonly extensions: Extension;
  readonly onSaved: () => void;
  /** Called when a subject was saved for the first time; resolves when there is another page to go to, its address. */
  readonly onCreated?: ((notices: Notices) => Promise<string>) | undefined;
  /** True for a problem that the page deals with elsewhere. */
  readonly isElsewhere?: ((problem: Problem) => boolean) | undefined;
}

const WHAT = { variable: "the variable", definition: "the definition of", entry: "the entry of" } as const;

export function openSubjectEditor(
  setup: Setup,
  { extensions, onSaved, onCreated, isElsewhere }: SubjectEditorOptions,
): SubjectEditor {
  const api = new EditApi(setup.api);
  const notices = openNotices();
  const state = element("p", { className: "editor-state muted" });
  state.setAttribute("role", "status");
  const hint = element(
    "p",
    { className: "muted small", id: `leave-${setup.kind}` },
    setup.readOnly
      ? "This text can only be read here."
      : "Tab indents. To leave the editor by keyboard, press Escape and then Tab. Ctrl+S or ⌘S saves, Ctrl+Space completes.",
  );
  const saveButton = button("", () => void save(), "primary");
  const deleteButton = button("Delete…", () => void remove(), "danger");
  let edits = 0;

  const changed = (): void => {
    if (setup.readOnly) return;
    edits++;
    showState();
    text.keepSoon();
    review.soon();
    form?.follow();
  };
  const files = openFiles(setup, { hintId: hint.id, extensions, onChange: () => changed() });
  const form = setup.settings && openFormView(setup, setup.settings, files, hint);
  const text = new EditedText(setup, form?.files ?? files);
  const review = openLiveReview(api, text, { onSound: () => notices.clear("refused"), isElsewhere });

  const showState = (doing?: string): void => {
    const isNew = text.base.cid === null;
    const isDirty = text.isDirty();
    saveButton.textContent = isNew ? "Create" : "Save";
    // A disabled button would lose the focus of whoever has just pressed it.
    saveButton.ariaDisabled = String(saver.isBusy || !isDirty);
    // Nobody means to delete the configuration of all servers.
    deleteButton.hidden = isNew || (setup.kind === "variable" && setup.name === "mcps");
    state.textContent = doing ?? (isNew ? "Not saved yet" : isDirty ? "Unsaved changes" : "No unsaved changes");
  };
  const saver = new Saver({ api, text, notices, review, onSaved, onState: showState });

  const save = async (): Promise<void> => {
    if (setup.readOnly || !text.isDirty()) return;
    const before = edits;
    const isNew = text.base.cid === null;
    // The page of a new subject has no history; after the save there is one.
    if (!(await saver.save(text.files.draft(), "Save")) || before !== edits) return;
    if (isNew) location.assign((await onCreated?.(notices)) ?? addressOf(setup));
    else if (setup.kind === "variable" && setup.name === "packages") {
      // Berth completes what the text says of packages.
      const now = await api.current().catch(() => undefined);
      if (now && before === edits) text.takeOver({ cid: now.cid, draft: now });
    }
  };

  const restore = async (cid: string): Promise<void> => {
    const draft = await api.version(cid);
    if (!draft) {
      notices.show("save", "bad", "This version no longer exists.");
      return;
    }
    if (text.isTouched() && !(await askDiscard("Restoring an earlier version replaces your text.", "Restore"))) return;
    if (await saver.save(draft, "Restore")) text.files.replace(draft);
  };

  const grant = async (grants: readonly Grant[]): Promise<void> => {
    const draft = withGrants(text.base.draft, grants);
    if (!draft) {
      notices.show("save", "bad", "This entry cannot be read; fix it first.");
      return;
    }
    if (text.isTouched() && !(await askDiscard("Granting saves the entry without them.", "Grant"))) return;
    if (await saver.save(draft, "Grant")) text.files.replace(draft);
    root.scrollIntoView({ block: "nearest" });
  };

  const refresh = async (): Promise<void> => {
    if (saver.isBusy || setup.readOnly) return;
    const now = await api.current().catch(() => undefined);
    if (!now || now.cid === text.base.cid || saver.isBusy) return;
    if (!text.isTouched()) return text.takeOver({ cid: now.cid, draft: now });
    const message = `Someone else has saved meanwhile (by ${now.by}). When you save, you will see both texts.`;
    notices.show("conflict", "warn", message);
  };

  /** Asks once, listing all effects. */
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
    if (sure && (await saver.save(null, "Delete", found?.breaking === true))) location.assign(addressOf(setup));
  };

  const bar = setup.readOnly ? "" : element("div", { className: "editor-bar" }, state, saveButton);
  // Away from the button that saves.
  const end = setup.readOnly ? "" : element("div", { className: "editor-end" }, deleteButton);
  const parts = [notices.element, form?.element ?? files.element, bar, hint, review.problems, review.effects, end];
  const root = element("div", { className: "editor-body" }, ...parts);
  root.addEventListener("keydown", (event) => {
    if (event.key.toLowerCase() !== "s" || !(event.ctrlKey || event.metaKey) || event.altKey) return;
    event.preventDefault();
    void save();
  });
  showState();
  if (!setup.readOnly) {
    offerKeptDraft(setup.api, text, notices);
    void review.now();
  }
  return {
    element: root,
    isDirty: () => !setup.readOnly && text.isTouched(),
    keep: () => text.keep(),
    save,
    restore,
    grant,
    refresh,
  };
}

/** Undefined for an entry that is no object. */
function withGrants({ entry, files }: Draft, grants: readonly Grant[]): Draft | undefined {
  const raw = readEntryText(files[entry] ?? "");
  if (!raw) return undefined;
  const granting: Record<string, unknown> = { ...raw };
  for (const { field, value } of grants) {
    const given: unknown = granting[field];
    const list: unknown[] = Array.isArray(given) ? given : [];
    if (!list.includes(value)) granting[field] = [...list, value];
  }
  return { entry, files: { [entry]: `${JSON.stringify(granting, null, 2)}\n` } };
}

interface FilesOptions {
  readonly hintId: string;
  readonly extensions: Extension;
  readonly onChange: () => void;
}

function openFiles(setup: Setup, { hintId, extensions, onChange }: FilesOptions): FileTabs {
  const { kind, name, entry, files, language, readOnly, styleNonce } = setup;
  return openFileTabs({
    draft: { entry, files },
    several: kind === "definition" && language === "typescript" && !readOnly,
    open: (path, text) =>
      openCodeEditor({
        text,
        label: kind === "definition" ? `Source of ${path}` : `Value of ${name}`,
        hintId,
        readOnly,
        styleNonce,
        extensions: [languageOf(path, language), extensions],
        onChange,
      }),
    onChange,
  });
}

function askDiscard(why: string, verb: string): Promise<boolean> {
  return ask({
    title: "You have unsaved changes",
    content: [element("p", {}, why)],
    no: "Back to my text",
    yes: `${verb} anyway`,
  });
}
