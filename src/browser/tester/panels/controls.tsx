import { useEffect, useId, useState } from "preact/hooks";
import { COMPLETION_DELAY_MS } from "../limits.ts";
import type { Runner } from "../run.ts";
import { useStore } from "../store.ts";

interface Choice {
  readonly value: string;
  readonly label: string;
  readonly group?: string;
}

/** Chooses one of the things that a server offers. */
export function Chooser(props: {
  readonly label: string;
  readonly choices: readonly Choice[];
  readonly value: string;
  readonly onChange: (value: string) => void;
}) {
  const { label, choices, value, onChange } = props;
  const id = useId();
  const groups = [...new Set(choices.map(({ group }) => group))];
  const options = (group: string | undefined) =>
    choices
      .filter((choice) => choice.group === group)
      .map(({ value, label }) => (
        <option key={value} value={value}>
          {label}
        </option>
      ));
  return (
    <div class="field chooser">
      <label for={id}>{label}</label>
      <select id={id} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        {groups.map((group) =>
          group === undefined ? (
            options(group)
          ) : (
            <optgroup key={group} label={group}>
              {options(group)}
            </optgroup>
          ),
        )}
      </select>
    </div>
  );
}

interface Argument {
  readonly name: string;
  readonly description?: string | undefined;
  readonly required: boolean;
}

export type Values = Readonly<Record<string, string>>;

/** The server's suggestions for one argument; undefined when it offers none. */
type Complete = ((argument: string, value: string, others: Values) => Promise<readonly string[]>) | undefined;

interface FieldsProps {
  readonly args: readonly Argument[];
  readonly values: Values;
  readonly onChange: (values: Values) => void;
  readonly complete: Complete;
}

/** The arguments of prompts and resource templates: all of them are texts. */
export function ArgumentFields({ args, values, onChange, complete }: FieldsProps) {
  return (
    <div class="fields">
      {args.map((argument) => (
        <ArgumentField
          key={argument.name}
          {...{ argument, values, complete }}
          onChange={(value) => onChange({ ...values, [argument.name]: value })}
        />
      ))}
    </div>
  );
}

interface FieldProps {
  readonly argument: Argument;
  readonly values: Values;
  readonly onChange: (value: string) => void;
  readonly complete: Complete;
}

function ArgumentField({ argument, values, onChange, complete }: FieldProps) {
  const { name, description, required } = argument;
  const id = useId();
  const value = values[name] ?? "";
  const [focused, setFocused] = useState(false);
  const suggestions = useSuggestions(focused ? complete : undefined, name, values);
  return (
    <div class="field">
      <label for={id}>
        {name}
        {required && <span class="required"> required</span>}
      </label>
      {description && (
        <div class="hint pre-line" id={`${id}-hint`}>
          {description}
        </div>
      )}
      <input
        id={id}
        type="text"
        list={`${id}-list`}
        autocomplete="off"
        required={required}
        value={value}
        {...(description && { "aria-describedby": `${id}-hint` })}
        onFocus={() => setFocused(true)}
        onBlur={() => setFocused(false)}
        onInput={(event) => onChange(event.currentTarget.value)}
      />
      <datalist id={`${id}-list`}>
        {suggestions.map((each) => (
          <option key={each} value={each} />
        ))}
      </datalist>
    </div>
  );
}

function useSuggestions(complete: Complete, name: string, values: Values): readonly string[] {
  const [suggestions, setSuggestions] = useState<readonly string[]>([]);
  const value = values[name] ?? "";
  useEffect(() => {
    if (!complete) return;
    let isCurrent = true;
    const timer = setTimeout(async () => {
      const { [name]: _own, ...others } = values;
      try {
        const found = await complete(name, value, others);
        if (isCurrent) setSuggestions(found);
      } catch {
        // Suggestions are only a help; the raw messages tell why there are none.
        if (isCurrent) setSuggestions([]);
      }
    }, COMPLETION_DELAY_MS);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [complete === undefined, name, value]);
  return suggestions;
}

/** Starts no second request while one runs anywhere on the page, but keeps the focus. */
export function RunButton({ runner, label }: { runner: Runner; label: string }) {
  const busy = useStore(runner.active) !== undefined;
  return (
    <button type="submit" class="primary" aria-disabled={busy}>
      {label}
    </button>
  );
}
