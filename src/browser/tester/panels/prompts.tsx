import type { Prompt } from "@modelcontextprotocol/client";
import { useState } from "preact/hooks";
import type { Runner } from "../run.ts";
import type { Connection } from "../session.ts";
import { ArgumentFields, Chooser, RunButton, type Values } from "./controls.tsx";

interface PromptsProps {
  readonly connection: Connection;
  readonly runner: Runner;
  readonly prompts: readonly Prompt[];
  readonly chosen: string | undefined;
  readonly choose: (name: string) => void;
}

export function PromptsPanel({ prompts, chosen, choose, ...rest }: PromptsProps) {
  const prompt = prompts.find(({ name }) => name === chosen) ?? prompts[0];
  if (!prompt) return <p class="hint">This server has no prompts.</p>;
  return (
    <>
      <Chooser
        label="Prompt"
        value={prompt.name}
        onChange={choose}
        choices={prompts.map(({ name, title }) => ({ value: name, label: title ? `${name}: ${title}` : name }))}
      />
      <PromptForm key={prompt.name} {...rest} prompt={prompt} />
    </>
  );
}

function PromptForm(props: Pick<PromptsProps, "connection" | "runner"> & { readonly prompt: Prompt }) {
  const { connection, runner, prompt } = props;
  const { name, description } = prompt;
  const [values, setValues] = useState<Values>({});
  const submit = (event: Event) => {
    event.preventDefault();
    const given = Object.fromEntries(Object.entries(values).filter(([, value]) => value !== ""));
    void runner.start(name, async (options) => ({
      kind: "prompt",
      result: await connection.client.getPrompt({ name, arguments: given, ...connection.meta }, options),
    }));
  };
  const complete = async (argument: string, value: string, others: Values) => {
    const { completion } = await connection.client.complete({
      ref: { type: "ref/prompt", name },
      argument: { name: argument, value },
      context: { arguments: { ...others } },
    });
    return completion.values;
  };
  return (
    <form onSubmit={submit}>
      {description && <p class="pre-line description">{description}</p>}
      <ArgumentFields
        args={(prompt.arguments ?? []).map((each) => ({
          name: each.name,
          description: each.description,
          required: each.required ?? false,
        }))}
        values={values}
        onChange={setValues}
        complete={connection.completes ? complete : undefined}
      />
      <p class="buttons">
        <RunButton runner={runner} label="Get the prompt" />
      </p>
    </form>
  );
}
