import { render, type ComponentChildren } from "preact";
import { useId, useRef, useState } from "preact/hooks";
import type { FormLine } from "../../entry/form-line.ts";
import { isObject } from "../../lib/json.ts";
import type { Problem } from "../../lib/problem.ts";
import { Store, useStore } from "../tester/store.ts";
import { switchAuto, switchesOf, switchTool, withField, type EntryValue } from "./entry-value.ts";

/** The page's knowledge beside the entry (src/http/pages/server-tabs/settings.ts). */
export interface KnownSettings {
  readonly base: string;
  readonly isUpstream: boolean;
  readonly form: readonly (FormLine & { readonly field: string })[];
  /** The functions of the definition; absent when it is not served. */
  readonly functions?: readonly string[];
  /** For those who may know. */
  readonly secrets?: readonly { readonly name: string; readonly isSet: boolean }[];
  readonly variables?: readonly string[];
  /** The names of files behind CIDs in the entry. */
  readonly files: readonly {
    readonly field: string;
    readonly file: string;
    readonly cid: string;
    readonly short: string;
    readonly href: string;
  }[];
}

export interface SettingsForm {
  readonly element: HTMLElement;
  /** Undefined while the text is no entry. */
  show(entry: EntryValue | undefined): void;
  showProblems(problems: readonly Problem[]): void;
  /** Turns to the field of a problem; false where the form has none. */
  reveal(problem: Problem): boolean;
}

interface SettingsFormOptions {
  readonly known: KnownSettings;
  readonly readOnly: boolean;
  readonly onChange: (entry: EntryValue) => void;
}

/** The entry of a server as a form: another view of the same text. */
export function openSettingsForm({ known, readOnly, onChange }: SettingsFormOptions): SettingsForm {
  const element = document.createElement("div");
  const shown = new Store<Shown>({ entry: undefined, problems: [] });
  // Rendered once: ids are unique within one tree.
  render(<Followed shown={shown} {...{ known, readOnly, onChange }} />, element);
  return {
    element,
    show: (entry) => shown.set({ ...shown.value, entry }),
    showProblems: (problems) => shown.set({ ...shown.value, problems }),
    reveal({ pointer = "" }) {
      const lines = [...element.querySelectorAll<HTMLElement>("[data-fields]")];
      const line = lines.find(({ dataset }) =>
        (JSON.parse(dataset["fields"]!) as string[]).some((field) => isAt(pointer, [field])),
      );
      const control =
        line?.querySelector<HTMLElement>('[aria-invalid="true"]') ??
        line?.querySelector<HTMLElement>("input, textarea, select");
      control?.focus();
      return control !== undefined && control !== null;
    },
  };
}

interface Shown {
  readonly entry: EntryValue | undefined;
  readonly problems: readonly Problem[];
}

function Followed({ shown, ...options }: SettingsFormOptions & { readonly shown: Store<Shown> }) {
  return <Form {...useStore(shown)} {...options} />;
}

type Line = KnownSettings["form"][number];

interface LineProps extends Shown {
  readonly line: Line;
  readonly entry: EntryValue;
  readonly known: KnownSettings;
  readonly onChange: (entry: EntryValue) => void;
  readonly set: (name: string, value: unknown) => void;
}

const CONTROLS: { readonly [Control in Line["control"]]: (props: LineProps) => ComponentChildren } = {
  check: Switch,
  choice: Choice,
  files: Files,
  hold: Hold,
  names: Names,
  numbers: Numbers,
  options: Options,
  text: Text,
  tools: Tools,
};

function Form({ entry, problems, known, readOnly, onChange }: SettingsFormOptions & Shown) {
  if (!entry) return <p class="muted">The text is not an entry yet; mend it as JSON.</p>;
  if ("config_cid" in entry)
    return <p class="muted">This entry is stored separately, by its CID. Change it as JSON.</p>;
  const set = (name: string, value: unknown) => onChange(withField(entry, name, value));
  const inForm = new Set([
    ...known.form.flatMap(({ field, covers = [] }) => [field, ...covers]),
    ...known.files.map(({ field }) => field),
  ]);
  const others = Object.keys(entry).filter((name) => !inForm.has(name));
  return (
    <form class="settings" onSubmit={(event) => event.preventDefault()}>
      <fieldset disabled={readOnly}>
        {known.form.map((line) => {
          const Control = CONTROLS[line.control];
          return <Control key={line.field} {...{ line, entry, problems, known, onChange, set }} />;
        })}
        {others.length > 0 && (
          <Setting line={{ label: "Other fields" }} fields={others} problems={problems}>
            <p class="hint">
              Edit these in the JSON view:{" "}
              {others.map((name) => (
                <code key={name}>{name} </code>
              ))}
            </p>
          </Setting>
        )}
      </fieldset>
    </form>
  );
}

function isAt(pointer: string, path: readonly (string | number)[]): boolean {
  const start = path.map((step) => `/${String(step).replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
  return pointer === start || pointer.startsWith(`${start}/`);
}

function isWrong(problems: readonly Problem[], ...path: readonly (string | number)[]): boolean {
  return problems.some(({ pointer = "" }) => isAt(pointer, path));
}

function textIn(entry: EntryValue, name: string): string {
  const value = entry[name];
  return typeof value === "string" ? value : "";
}

interface SettingProps {
  readonly line: Pick<Line, "label" | "hint">;
  /** The fields of the entry that it is about. */
  readonly fields: readonly string[];
  /** All of the entry; each line shows its own. */
  readonly problems: readonly Problem[];
  /** The id of its control, where it is a single one. */
  readonly control?: string;
  readonly children: ComponentChildren;
}

/** One line of the form: what it is about, its controls, and what is wrong with it. */
function Setting({ line: { label, hint }, fields, control, problems, children }: SettingProps) {
  const id = useId();
  const own = problems.filter(({ pointer = "" }) => fields.some((field) => isAt(pointer, [field])));
  const isWrong = own.some(({ severity }) => severity === "error");
  const body = (
    <>
      {hint !== undefined && <p class="hint">{hint}</p>}
      {children}
      <ul class="mistakes" aria-live="polite">
        {own.map(({ message, severity }) => (
          <li key={message} class={severity}>
            {message}
          </li>
        ))}
      </ul>
    </>
  );
  const line = { class: `setting${isWrong ? " wrong" : ""}`, "data-fields": JSON.stringify(fields) };
  if (control !== undefined) {
    return (
      <div {...line}>
        <label for={control}>{label}</label>
        <div>{body}</div>
      </div>
    );
  }
  return (
    <div {...line} role="group" aria-labelledby={id}>
      <span id={id}>{label}</span>
      <div>{body}</div>
    </div>
  );
}

function Check({ label, isOn, change }: { label: ComponentChildren; isOn: boolean; change: (isOn: boolean) => void }) {
  return (
    <label class="check">
      <input type="checkbox" checked={isOn} onChange={(event) => change(event.currentTarget.checked)} />
      <span>{label}</span>
    </label>
  );
}

/** A field that is on unless it is false. */
function Switch({ line, entry, set, problems }: LineProps) {
  const { field, text } = line;
  return (
    <Setting line={line} fields={[field]} problems={problems}>
      <Check label={text} isOn={entry[field] !== false} change={(isOn) => set(field, isOn ? undefined : false)} />
    </Setting>
  );
}

function Text({ line, entry, set, problems }: LineProps) {
  const id = useId();
  const { field, rows = 1 } = line;
  const common = { id, value: textIn(entry, field), spellcheck: rows > 1, "aria-invalid": isWrong(problems, field) };
  // Without its launcher URI, an upstream would become a definition.
  const change = (text: string) => set(field, text === "" && field !== "upstream" ? undefined : text);
  return (
    <Setting line={line} fields={[field]} control={id} problems={problems}>
      {rows > 1 ? (
        <textarea {...common} rows={rows} onInput={(event) => change(event.currentTarget.value)} />
      ) : (
        <input {...common} autocomplete="off" onInput={(event) => change(event.currentTarget.value)} />
      )}
    </Setting>
  );
}

function Choice({ line, entry, set, problems }: Omit<LineProps, "known" | "onChange">) {
  const id = useId();
  const { field, choices = [] } = line;
  const value = textIn(entry, field);
  const isListed = choices.some(([each]) => each === value);
  return (
    <Setting line={line} fields={[field]} control={id} problems={problems}>
      <select id={id} value={value} onChange={({ currentTarget }) => set(field, currentTarget.value || undefined)}>
        {(isListed ? choices : [...choices, [value, value] as const]).map(([value, label]) => (
          <option key={value} value={value}>
            {label}
          </option>
        ))}
      </select>
    </Setting>
  );
}

/** The fields about changes of the upstream; `"schema_validation": "ignore"` is an earlier way to say "none". */
function Hold({ line, entry, onChange, problems }: LineProps) {
  const validation = textIn(entry, "schema_validation");
  const hold = textIn(entry, "hold") || (validation === "ignore" ? "none" : "any");
  const change = (_: string, value: unknown) => {
    const bare = withField(entry, "hold", value === "any" ? undefined : value);
    const next = validation === "ignore" || value === "none" ? withField(bare, "schema_validation", undefined) : bare;
    onChange(value === "breaking" ? next : withField(next, "hold_texts", undefined));
  };
  const set = (name: string, value: unknown) => onChange(withField(entry, name, value));
  return (
    <>
      <Choice line={line} entry={{ hold }} set={change} problems={problems} />
      {hold === "breaking" && (
        <Setting line={{ label: "Texts" }} fields={["hold_texts"]} problems={problems}>
          <Check
            label="Hold back new or changed text that a model reads, such as descriptions"
            isOn={entry["hold_texts"] !== false}
            change={(isOn) => set("hold_texts", isOn ? undefined : false)}
          />
        </Setting>
      )}
      {hold !== "none" && (
        <Choice
          line={UNTIL_APPROVED}
          entry={{ schema_validation: validation || "warn" }}
          set={(field, value) => set(field, value === "warn" ? undefined : value)}
          problems={problems}
        />
      )}
    </>
  );
}

const UNTIL_APPROVED: Line = {
  field: "schema_validation",
  label: "Until it is approved",
  control: "choice",
  choices: [
    ["warn", "all else is served (warn)"],
    ["error", "the server is refused (error)"],
  ],
};

/** The files behind the CIDs that an entry has in their place. */
function Files({ line, known: { files }, problems }: LineProps) {
  if (files.length === 0) return null;
  return (
    <Setting line={line} fields={files.map(({ field }) => field)} problems={problems}>
      <ul class="plain-list">
        {files.map(({ field, file, cid, short, href }) => (
          <li key={field}>
            <code>{file}</code> <span class="hint">{field}</span>{" "}
            <a class="mono" href={href} title={cid}>
              {short}
            </a>
          </li>
        ))}
      </ul>
    </Setting>
  );
}

function Tools({ line, entry, known, onChange, problems }: LineProps) {
  const functions = known.functions ?? [];
  // What the entry said of a tool comes back when it is switched on again.
  const said = useRef(new Map<string, unknown>());
  const { isAuto, tools } = switchesOf(entry, functions);
  const change = (name: string, isOn: boolean) => {
    const now = isObject(entry["tools"]) ? entry["tools"][name] : undefined;
    if (!isOn && now !== undefined) said.current.set(name, now);
    onChange(switchTool(entry, functions, { name, isOn, before: said.current.get(name) }));
  };
  const { label, field, covers = [] } = line;
  const hint = known.functions ? undefined : "Its tools are not known while it is not served.";
  return (
    <Setting line={{ label, ...(hint && { hint }) }} fields={[field, ...covers]} problems={problems}>
      <ul class="switches">
        {tools.map(({ name, isOn }) => (
          <li key={name}>
            <Check label={<code>{name}</code>} isOn={isOn} change={(isOn) => change(name, isOn)} />
          </li>
        ))}
      </ul>
      <Check
        label={known.isUpstream ? "Offer new tools automatically" : "New functions become tools automatically"}
        isOn={isAuto}
        change={(isAuto) => onChange(switchAuto(entry, functions, isAuto))}
      />
    </Setting>
  );
}

/** A list of names: each can be changed and removed, and the last field adds one. */
function Names({ line, entry, set, known, problems }: LineProps) {
  const id = useId();
  const [added, setAdded] = useState("");
  const { field, label, one = "", all } = line;
  const suggested: Readonly<Record<string, readonly string[] | undefined>> = {
    secrets: known.secrets?.map(({ name }) => name),
    variables: known.variables,
    consent: known.functions,
  };
  const isUnset = (name: unknown): boolean =>
    field === "secrets" && known.secrets?.some((each) => each.name === name && each.isSet) === false;
  const written = entry[field];
  const names = Array.isArray(written) ? (written as unknown[]) : [];
  const isAll = all !== undefined && written === undefined;
  const change = (next: readonly unknown[]) => set(field, next.length === 0 && all === undefined ? undefined : next);
  const add = () => {
    if (added.trim() === "") return;
    change([...names, added.trim()]);
    setAdded("");
  };
  const common = { spellcheck: false, autocomplete: "off", list: `${id}-known` } as const;
  return (
    <Setting line={line} fields={[field]} problems={problems}>
      {all !== undefined && <Check label={all} isOn={isAll} change={(isOn) => set(field, isOn ? undefined : [])} />}
      {!isAll && (
        <ul class="plain-list">
          {names.map((name, index) => (
            <li key={index} class="row">
              <input
                {...common}
                aria-label={`${label}: ${one} ${index + 1}`}
                value={String(name)}
                aria-invalid={isWrong(problems, field, index)}
                onInput={(event) => change(names.with(index, event.currentTarget.value))}
              />
              <button
                type="button"
                class="small"
                aria-label={`Remove ${String(name)}`}
                onClick={() => change(names.filter((_, other) => other !== index))}
              >
                ✕
              </button>
              {isUnset(name) && (
                <a class="badge warn" href={`${known.base}/secrets`}>
                  not set
                </a>
              )}
            </li>
          ))}
          <li class="row">
            <input
              {...common}
              aria-label={`Add a ${one}`}
              placeholder={`Add a ${one}`}
              value={added}
              onInput={(event) => setAdded(event.currentTarget.value)}
              onKeyDown={(event) => {
                if (event.key !== "Enter") return;
                event.preventDefault();
                add();
              }}
              onBlur={add}
            />
            <button type="button" class="small" onClick={add}>
              Add<span class="visually-hidden"> the {one}</span>
            </button>
          </li>
        </ul>
      )}
      <datalist id={`${id}-known`}>
        {suggested[field]?.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </Setting>
  );
}

/** A number for each member of an object. */
function Numbers({ line, entry, set, problems }: LineProps) {
  const id = useId();
  const { field, choices = [] } = line;
  const numbers = isObject(entry[field]) ? entry[field] : {};
  const change = (name: string, text: string) => {
    const next = withField(numbers, name, text.trim() === "" ? undefined : numberOr(text));
    set(field, Object.keys(next).length === 0 ? undefined : next);
  };
  return (
    <Setting line={line} fields={[field]} problems={problems}>
      <div class="numbers">
        {choices.map(([name, label]) => (
          <div key={name}>
            <label for={`${id}-${name}`}>{label}</label>
            <input
              id={`${id}-${name}`}
              inputMode="numeric"
              autocomplete="off"
              value={textOf(numbers[name])}
              aria-invalid={isWrong(problems, field, name)}
              onInput={(event) => change(name, event.currentTarget.value)}
            />
          </div>
        ))}
      </div>
    </Setting>
  );
}

function textOf(limit: unknown): string {
  return typeof limit === "number" || typeof limit === "string" ? String(limit) : "";
}

/** Leaves a text that is no number as it is: the check says what is wrong with it. */
function numberOr(text: string): number | string {
  const number = Number(text);
  return Number.isFinite(number) ? number : text;
}

function Options({ line, entry, known, set, problems }: LineProps) {
  const id = useId();
  const options = isObject(entry["options"]) ? entry["options"] : {};
  const tools = switchesOf(entry, known.functions ?? []).tools.map(({ name }) => name);
  const left = tools.filter((name) => !Object.hasOwn(options, name));
  const [added, setAdded] = useState("");
  const chosen = left.includes(added) ? added : (left[0] ?? "");
  const change = (name: string, value: unknown) => {
    const next = withField(options, name, value);
    set("options", Object.keys(next).length === 0 ? undefined : next);
  };
  if (tools.length === 0 && Object.keys(options).length === 0) return null;
  return (
    <Setting line={line} fields={["options"]} problems={problems}>
      {Object.entries(options).map(([name, value]) => (
        <JsonField key={name} name={name} value={value} change={(next) => change(name, next)} />
      ))}
      {left.length > 0 && (
        <div class="row">
          <select
            id={id}
            aria-label="Tool to give options to"
            value={chosen}
            onChange={(event) => setAdded(event.currentTarget.value)}
          >
            {left.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
          <button type="button" class="small" onClick={() => change(chosen, {})}>
            Add options
          </button>
        </div>
      )}
    </Setting>
  );
}

interface JsonFieldProps {
  readonly name: string;
  readonly value: unknown;
  readonly change: (value: unknown) => void;
}

function JsonField({ name, value, change }: JsonFieldProps) {
  const id = useId();
  // The person's own spacing stays while they write, and so does what is no JSON yet.
  const [written, setWritten] = useState<{ readonly text: string; readonly value: unknown; readonly error?: string }>();
  const text = written && JSON.stringify(written.value) === JSON.stringify(value) ? written.text : indented(value);
  const write = (text: string) => {
    try {
      const next: unknown = JSON.parse(text);
      setWritten({ text, value: next });
      change(next);
    } catch (error) {
      setWritten({ text, value, error: `Not JSON yet, so not taken over: ${(error as Error).message}` });
    }
  };
  return (
    <div class="json-field">
      <div class="row">
        <label for={id}>
          <code>{name}</code>
        </label>
        <button
          type="button"
          class="small"
          aria-label={`Remove the options of ${name}`}
          onClick={() => change(undefined)}
        >
          ✕
        </button>
      </div>
      <textarea
        id={id}
        class="mono"
        rows={Math.min(8, text.split("\n").length)}
        spellcheck={false}
        value={text}
        aria-invalid={written?.error !== undefined}
        onInput={(event) => write(event.currentTarget.value)}
      />
      {written?.error !== undefined && written.text === text && (
        <p class="mistakes" role="alert">
          {written.error}
        </p>
      )}
    </div>
  );
}

function indented(value: unknown): string {
  return JSON.stringify(value, null, 2);
}
