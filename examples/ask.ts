import type { ToolContext } from "berth";

/** The questions of the form that the user fills in. */
const table = {
  type: "object",
  properties: {
    guests: { type: "integer", title: "Guests", minimum: 1, maximum: 12, default: 2 },
    time: { type: "string", title: "Time", enum: ["18:00", "19:30", "21:00"] },
  },
  required: ["guests", "time"],
} as const;

/**
 * Books a table, and asks the user for what only they know. The function runs again from its top with the answer, so
 * nothing is done before the question.
 *
 * @param name - The name that the table is booked in.
 */
export async function bookTable(name: string, { elicit }: ToolContext): Promise<string> {
  const answer = await elicit({ message: `A table for ${name}: how many guests, and when?`, schema: table });
  if (answer.action !== "accept") return "Nothing is booked.";
  const { guests, time } = answer.content;
  return `A table for ${guests} at ${time} is booked in the name of ${name}.`;
}
