import { render, type ComponentChildren } from "preact";
import { useId, useRef, useState } from "preact/hooks";
import type { Problem } from "../../lib/problem.ts";
import { Store, useStore } from "../tester/store.ts";
import { isObject, switchAuto, switchesOf, switchTool, withField, type EntryValue } from "./entry-value.ts";

/** The page's knowledge beside the entry (src/http/pages/server-tabs/settings.ts). */
export interface KnownSettings {
  readonly base: string;
  readonly isUpstream: boolean;
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

type FormProps = SettingsFormOptions & Shown;

/** The fields that have a place in the form; all others stand in the JSON alone. */
const OWN = new Set(
  (
    "enabled description definition upstream runs hold hold_texts schema_validation tools auto_discover network secrets variables " +
    "consent limits retain_calls options tools_transform_cid resources_transform_cid prompts_transform_cid contract_cid"
  ).split(" "),
);

function Form({ entry, problems, known, readOnly, onChange }: FormProps) {
  if (!entry) return <p class="muted">The text is not an entry yet; mend it as JSON.</p>;
  if ("config_cid" in entry)
    return <p class="muted">This entry is stored separately, by its CID. Change it as JSON.</p>;
  const set = (name: string, value: unknown) => onChange(withField(entry, name, value));
  const { isUpstream, secrets = [], variables = [] } = known;
  const others = Object.keys(entry).filter((name) => !OWN.has(name));
  return (
    <form class="settings" onSubmit={(event) => event.preventDefault()}>
      <fieldset disabled={readOnly}>
        <Setting label="Serving" fields={["enabled"]} problems={problems}>
          <Check
            label="Enabled: clients can use this server"
            isOn={entry["enabled"] !== false}
            change={(isOn) => set("enabled", isOn ? undefined : false)}
          />
        </Setting>
        <Text
          label="Description"
          hint="Clients get it as the server's instructions."
          rows={3}
          value={textIn(entry, "description")}
          change={(text) => set("description", text === "" ? undefined : text)}
          field="description"
          problems={problems}
        />
        {isUpstream && (
          <Text
            label="Upstream"
            hint="Its launcher URI: mcp+npx://…, mcp+uvx://…, mcp+https://…"
            value={textIn(entry, "upstream")}
            change={(text) => set("upstream", text)}
            field="upstream"
            problems={problems}
          />
        )}
        {isUpstream && <Hold entry={entry} onChange={onChange} problems={problems} />}
        {isUpstream && (
          <Choice
            label="Several processes"
            value={textIn(entry, "runs")}
            hint="By default, a program runs once for all processes, and each process connects to a remote server itself."
            choices={[
              ["", "as usual"],
              ["once", "once for all (once)"],
              ["everywhere", "in each (everywhere)"],
            ]}
            change={(value) => set("runs", value === "" ? undefined : value)}
            field="runs"
            problems={problems}
          />
        )}
        <Files known={known} problems={problems} />
        <Tools entry={entry} known={known} onChange={onChange} problems={problems} />
        {!isUpstream && (
          <Names
            label="Network"
            hint="Hosts that its code may reach: api.example.com, *.example.com, api.example.com:8443. None by default."
            one="host"
            field="network"
            {...{ entry, set, problems }}
          />
        )}
        <Names
          label="Secrets"
          hint="Secrets that its code may read."
          one="secret"
          field="secrets"
          known={secrets.map(({ name }) => name)}
          note={(name) =>
            known.secrets && !secrets.some((each) => each.name === name && each.isSet) ? (
              <a class="badge warn" href={`${known.base}/secrets`}>
                not set
              </a>
            ) : null
          }
          {...{ entry, set, problems }}
        />
        {!isUpstream && (
          <Names
            label="Variables"
            hint="Variables that its code may read."
            one="variable"
            field="variables"
            all="All variables of the tenant"
            known={variables}
            {...{ entry, set, problems }}
          />
        )}
        <Names
          label="Consent to calls"
          hint="Tools whose every call needs the consent of the user, by the names that clients know; * for all. None by default."
          one="tool"
          field="consent"
          known={known.functions ?? []}
          {...{ entry, set, problems }}
        />
        <Limits entry={entry} set={set} problems={problems} />
        <RetainCalls entry={entry} set={set} problems={problems} />
        <Options entry={entry} known={known} set={set} problems={problems} />
        {others.length > 0 && (
          <Setting label="Other fields" fields={others} problems={problems}>
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

interface Found {
  /** All of the entry; each line shows its own. */
  readonly problems: readonly Problem[];
}

interface SettingProps extends Found {
  readonly label: string;
  /** The fields of the entry that it is about. */
  readonly fields: readonly string[];
  readonly hint?: string | undefined;
  /** The id of its control, where it is a single one. */
  readonly control?: string;
  readonly children: ComponentChildren;
}

/** One line of the form: what it is about, its controls, and what is wrong with it. */
function Setting({ label, fields, hint, control, problems, children }: SettingProps) {
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

interface TextProps extends Found {
  readonly label: string;
  readonly field: string;
  readonly hint?: string;
  /** More than one makes it a text of several lines. */
  readonly rows?: number;
  readonly value: string;
  readonly change: (text: string) => void;
}

function Text({ label, field, hint, rows = 1, value, change, problems }: TextProps) {
  const id = useId();
  const common = { id, value, spellcheck: rows > 1, "aria-invalid": isWrong(problems, field) };
  return (
    <Setting label={label} fields={[field]} hint={hint} control={id} problems={problems}>
      {rows > 1 ? (
        <textarea {...common} rows={rows} onInput={(event) => change(event.currentTarget.value)} />
      ) : (
        <input {...common} autocomplete="off" onInput={(event) => change(event.currentTarget.value)} />
      )}
    </Setting>
  );
}

interface ChoiceProps extends Found {
  readonly label: string;
  readonly hint?: string;
  readonly field: string;
  readonly value: string;
  readonly choices: readonly (readonly [value: string, label: string])[];
  readonly change: (value: string) => void;
}

function Choice({ label, hint, field, value, choices, change, problems }: ChoiceProps) {
  const id = useId();
  return (
    <Setting label={label} hint={hint} fields={[field]} control={id} problems={problems}>
      <select id={id} value={value} onChange={(event) => change(event.currentTarget.value)}>
        {choices.map(([value, label]) => (
          <option key={value} value={value}>
            {label}
          </option>
        ))}
      </select>
    </Setting>
  );
}

interface HoldProps extends Found {
  readonly entry: EntryValue;
  readonly onChange: (entry: EntryValue) => void;
}

/** The fields about changes of the upstream; `"schema_validation": "ignore"` is an earlier way to say "none". */
function Hold({ entry, onChange, problems }: HoldProps) {
  const validation = textIn(entry, "schema_validation");
  const hold = textIn(entry, "hold") || (validation === "ignore" ? "none" : "any");
  const change = (value: string) => {
    const bare = withField(entry, "hold", value === "any" ? undefined : value);
    const next = validation === "ignore" || value === "none" ? withField(bare, "schema_validation", undefined) : bare;
    onChange(value === "breaking" ? next : withField(next, "hold_texts", undefined));
  };
  return (
    <>
      <Choice
        label="When it changes"
        hint="Withheld items are not served until a person approves them. New items are always served."
        value={hold}
        choices={[
          ["any", "withhold every change (any)"],
          ["breaking", "withhold all but compatible changes (breaking)"],
          ["none", "accept every change (none)"],
        ]}
        change={change}
        field="hold"
        problems={problems}
      />
      {hold === "breaking" && (
        <Setting label="Texts" fields={["hold_texts"]} problems={problems}>
          <Check
            label="Hold back new or changed text that a model reads, such as descriptions"
            isOn={entry["hold_texts"] !== false}
            change={(isOn) => onChange(withField(entry, "hold_texts", isOn ? undefined : false))}
          />
        </Setting>
      )}
      {hold !== "none" && (
        <Choice
          label="Until it is approved"
          value={validation || "warn"}
          choices={[
            ["warn", "all else is served (warn)"],
            ["error", "the server is refused (error)"],
          ]}
          change={(value) => onChange(withField(entry, "schema_validation", value === "warn" ? undefined : value))}
          field="schema_validation"
          problems={problems}
        />
      )}
    </>
  );
}

/** The files behind the CIDs that an entry has in their place. */
function Files({ known: { files }, problems }: Found & { known: KnownSettings }) {
  if (files.length === 0) return null;
  return (
    <Setting label="Files" fields={["definition"]} problems={problems}>
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

interface ToolsProps extends Found {
  readonly entry: EntryValue;
  readonly known: KnownSettings;
  readonly onChange: (entry: EntryValue) => void;
}

function Tools({ entry, known, onChange, problems }: ToolsProps) {
  const functions = known.functions ?? [];
  // What the entry said of a tool comes back when it is switched on again.
  const said = useRef(new Map<string, unknown>());
  const { isAuto, tools } = switchesOf(entry, functions);
  const change = (name: string, isOn: boolean) => {
    const now = isObject(entry["tools"]) ? entry["tools"][name] : undefined;
    if (!isOn && now !== undefined) said.current.set(name, now);
    onChange(switchTool(entry, functions, { name, isOn, before: said.current.get(name) }));
  };
  return (
    <Setting
      label="Tools"
      fields={["tools", "auto_discover"]}
      hint={known.functions ? undefined : "Its tools are not known while it is not served."}
      problems={problems}
    >
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

interface NamesProps extends Found {
  readonly entry: EntryValue;
  readonly set: (name: string, value: unknown) => void;
  readonly label: string;
  readonly hint: string;
  /** The noun for one of them. */
  readonly one: string;
  readonly field: string;
  /** The meaning of no list at all, where that is not the same as an empty one. */
  readonly all?: string;
  /** Names to suggest. */
  readonly known?: readonly string[];
  readonly note?: (name: string) => ComponentChildren;
}

/** A list of names: each can be changed and removed, and the last field adds one. */
function Names({ entry, set, label, hint, one, field, all, known = [], note, problems }: NamesProps) {
  const id = useId();
  const [added, setAdded] = useState("");
  const written = entry[field];
  const names = Array.isArray(written) ? (written as unknown[]) : [];
  const isAll = all !== undefined && written === undefined;
  const change = (next: readonly unknown[]) => set(field, next.length === 0 && all === undefined ? undefined : next);
  const add = () => {
    if (added.trim() === "") return;
    change([...names, added.trim()]);
    setAdded("");
  };
  return (
    <Setting label={label} fields={[field]} hint={hint} problems={problems}>
      {all !== undefined && <Check label={all} isOn={isAll} change={(isOn) => set(field, isOn ? undefined : [])} />}
      {!isAll && (
        <ul class="plain-list">
          {names.map((name, index) => (
            <li key={index} class="row">
              <input
                aria-label={`${label}: ${one} ${index + 1}`}
                value={String(name)}
                spellcheck={false}
                autocomplete="off"
                list={`${id}-known`}
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
              {note?.(String(name))}
            </li>
          ))}
          <li class="row">
            <input
              aria-label={`Add a ${one}`}
              placeholder={`Add a ${one}`}
              value={added}
              spellcheck={false}
              autocomplete="off"
              list={`${id}-known`}
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
        {known.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </Setting>
  );
}

interface PartProps extends Found {
  readonly entry: EntryValue;
  readonly set: (name: string, value: unknown) => void;
}

const LIMITS = [
  ["calls", "Concurrent calls"],
  ["calls_per_second", "Calls per second"],
] as const;

function Limits({ entry, set, problems }: PartProps) {
  const id = useId();
  const limits = isObject(entry["limits"]) ? entry["limits"] : {};
  const change = (name: string, text: string) => {
    const next = withField(limits, name, text.trim() === "" ? undefined : numberOr(text));
    set("limits", Object.keys(next).length === 0 ? undefined : next);
  };
  return (
    <Setting
      label="Limits"
      fields={["limits"]}
      hint="Calls beyond the limit fail with a time to try again. Empty: no limit of its own."
      problems={problems}
    >
      <div class="numbers">
        {LIMITS.map(([name, label]) => (
          <div key={name}>
            <label for={`${id}-${name}`}>{label}</label>
            <input
              id={`${id}-${name}`}
              inputMode="numeric"
              autocomplete="off"
              value={textOf(limits[name])}
              aria-invalid={isWrong(problems, "limits", name)}
              onInput={(event) => change(name, event.currentTarget.value)}
            />
          </div>
        ))}
      </div>
    </Setting>
  );
}

const TIMES = [
  ["", "no"],
  ["1h", "for an hour"],
  ["1d", "for a day"],
  ["7d", "for 7 days"],
  ["30d", "for 30 days"],
] as const;

function RetainCalls({ entry, set, problems }: PartProps) {
  const value = textIn(entry, "retain_calls");
  const isListed = TIMES.some(([time]) => time === value);
  return (
    <Choice
      label="Retain calls"
      hint="With their arguments and results, without secrets, for those who may change this server: on the tab Calls."
      field="retain_calls"
      value={value}
      choices={isListed ? TIMES : [...TIMES, [value, value]]}
      change={(time) => set("retain_calls", time === "" ? undefined : time)}
      problems={problems}
    />
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

function Options({ entry, known, set, problems }: PartProps & { readonly known: KnownSettings }) {
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
    <Setting
      label="Options"
      fields={["options"]}
      hint="The JSON that a tool reads from context.options."
      problems={problems}
    >
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
