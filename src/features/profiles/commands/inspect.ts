import { printableLine } from "../../../lib/printable.ts";
import type { UpstreamConnection } from "../../../upstream/calls/connection.ts";
import { surveyServer, type Survey } from "../../../upstream/calls/survey.ts";
import { launchLocation, type Launch } from "../../../upstream/launch/launch.ts";
import { oneOf } from "./options.ts";
import { RecordOutput } from "./output.ts";
import { reach, type ReachOptions } from "./reach.ts";
import { TextList } from "./text-list.ts";

export interface InspectOptions extends ReachOptions {
  readonly format?: string;
}

/** `berth inspect <reference>`: what a server offers (J2). */
export function inspect(reference: string, options: InspectOptions): Promise<number> {
  return show(reference, options, "text");
}

/** `berth mcp explore <reference>`: the same for programs and models (J2). */
export function explore(reference: string, options: InspectOptions): Promise<number> {
  return show(reference, options, "json");
}

function show(reference: string, options: InspectOptions, format: "text" | "json"): Promise<number> {
  return reach(reference, options, async ({ upstream, reference: { launch }, signal }) => {
    const chosen = oneOf("--format", options.format ?? format, ["text", "json"]);
    const survey = await surveyServer(upstream, { signal });
    const output = new RecordOutput("text");
    const shown = chosen === "json" ? asJson(launch, upstream, survey) : asText(launch, upstream, survey);
    await output.text(shown);
    return 0;
  });
}

function asJson(launch: Launch, upstream: UpstreamConnection, survey: Survey): string {
  const { transport, era, protocolVersion, serverInfo } = upstream;
  const { description: instructions, failed: _failed, ...lists } = survey;
  const about = { server: nameGiven(launch), transport, era, protocolVersion, serverInfo, instructions, ...lists };
  return `${JSON.stringify(about, undefined, 2)}\n`;
}

function asText(launch: Launch, upstream: UpstreamConnection, survey: Survey): string {
  const list = new TextList();
  const { transport, protocolVersion, serverInfo } = upstream;
  const said = serverInfo === undefined ? "" : printableLine(`${serverInfo.name} ${serverInfo.version}, `);
  return `${list.title(nameGiven(launch))}\n  ${said}MCP ${protocolVersion} over ${transport}\n\n${list.survey(survey)}`;
}

/** The person's own name for it: a script with its folder, which clients of a hosted one do not see. */
function nameGiven(launch: Launch): string {
  const isScript = launch.launcher === "node" || launch.launcher === "python";
  return isScript && !launch.name.startsWith("@") ? launchLocation(launch) : launch.name;
}
