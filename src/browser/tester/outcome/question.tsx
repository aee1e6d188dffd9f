import { useEffect, useId, useMemo, useRef, useState } from "preact/hooks";
import { initialValue, SchemaForm } from "../form/schema-form.tsx";
import { type JsonSchema, type Mistake, mistakes } from "../form/validation.ts";
import type { Answer, Question } from "../run.ts";
import { JsonView } from "./json-view.tsx";

interface QuestionProps {
  readonly question: Question;
  readonly answer: (answer: Answer) => void;
}

/** A question of the server to the person, who can answer, decline, or cancel. It takes the focus. */
export function QuestionView({ question, answer }: QuestionProps) {
  const id = useId();
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), []);
  return (
    <section class="question" aria-labelledby={id}>
      <h3 id={id} ref={heading} tabIndex={-1}>
        {question.kind === "sampling" ? "The server asks your model" : "The server asks you"}
      </h3>
      {question.kind === "form" && <FormQuestion {...question} answer={answer} />}
      {question.kind === "url" && <UrlQuestion {...question} answer={answer} />}
      {question.kind === "sampling" && <SamplingQuestion {...question} answer={answer} />}
    </section>
  );
}

function Refusals({ answer }: Pick<QuestionProps, "answer">) {
  return (
    <>
      <button type="button" onClick={() => answer({ action: "decline" })}>
        Decline
      </button>
      <button type="button" onClick={() => answer({ action: "cancel" })}>
        Dismiss
      </button>
    </>
  );
}

interface FormQuestionProps extends Pick<QuestionProps, "answer"> {
  readonly message: string;
  readonly schema: JsonSchema;
}

function FormQuestion({ message, schema, answer }: FormQuestionProps) {
  const id = useId();
  const [value, setValue] = useState<Record<string, unknown>>(() => initialValue(schema));
  const [attempted, setAttempted] = useState(false);
  const found = useMemo(() => mistakes(schema, value), [schema, value]);
  const shown = attempted ? found : NONE;
  const submit = (event: Event) => {
    event.preventDefault();
    setAttempted(true);
    if (found.length === 0) answer({ action: "accept", content: plain(value) });
  };
  return (
    <form onSubmit={submit} noValidate>
      <p class="pre-line">{message}</p>
      <SchemaForm
        name={`question${id}`}
        oneLine
        schema={schema}
        value={value}
        onChange={(next) => setValue(next as Record<string, unknown>)}
        mistakes={shown}
      />
      <Wrong count={shown.length} />
      <p class="buttons">
        <button type="submit" class="primary">
          Send the answer
        </button>
        <Refusals answer={answer} />
      </p>
    </form>
  );
}

const NONE: readonly Mistake[] = [];

export function Wrong({ count }: { count: number }) {
  return (
    <p class="wrong-count" aria-live="polite">
      {count > 0 && (count === 1 ? "One field needs correction." : `${count} fields need correction.`)}
    </p>
  );
}

function UrlQuestion({ message, url, answer }: { message: string; url: string } & Pick<QuestionProps, "answer">) {
  const address = URL.canParse(url) ? new URL(url) : undefined;
  const isWeb = address?.protocol === "https:" || address?.protocol === "http:";
  const open = () => {
    window.open(url, "_blank", "noopener,noreferrer");
    answer({ action: "accept" });
  };
  return (
    <>
      <p class="pre-line">{message}</p>
      <p>
        It asks you to open a page of <strong>{address?.host ?? "nowhere"}</strong>:
        <br />
        <code>{url}</code>
      </p>
      {!isWeb && <p class="notice bad">This is not a web address, so it cannot be opened.</p>}
      <p class="buttons">
        <button type="button" class="primary" disabled={!isWeb} onClick={open}>
          Open the page
        </button>
        <Refusals answer={answer} />
      </p>
    </>
  );
}

type SamplingProps = Extract<Question, { kind: "sampling" }> & Pick<QuestionProps, "answer">;

/** The person plays the model. */
function SamplingQuestion({ systemPrompt, messages, maxTokens, answer }: SamplingProps) {
  const id = useId();
  const [text, setText] = useState("");
  const submit = (event: Event) => {
    event.preventDefault();
    answer({ action: "accept", text });
  };
  return (
    <form onSubmit={submit}>
      {systemPrompt && <p class="hint pre-line">{systemPrompt}</p>}
      <ol class="turns">
        {messages.map(({ role, content }, index) => (
          <li key={index}>
            <p class="badge accent">{role}</p>
            {textOf(content) === undefined ? <JsonView value={content} /> : <p class="pre-line">{textOf(content)}</p>}
          </li>
        ))}
      </ol>
      <div class="field">
        <label for={id}>The model's answer</label>
        <div class="hint">At most {maxTokens} tokens. There is no model here, so you are it.</div>
        <textarea
          id={id}
          class="grows"
          rows={2}
          required
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </div>
      <p class="buttons">
        <button type="submit" class="primary">
          Send the answer
        </button>
        <button type="button" onClick={() => answer({ action: "decline" })}>
          Decline
        </button>
      </p>
    </form>
  );
}

function textOf(content: unknown): string | undefined {
  const { type, text } = content as { type?: unknown; text?: unknown };
  return type === "text" && typeof text === "string" ? text : undefined;
}

function plain(value: Record<string, unknown>): Record<string, unknown> {
  return JSON.parse(JSON.stringify(value));
}
