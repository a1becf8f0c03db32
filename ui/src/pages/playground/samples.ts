// The same request as sample code to copy.

export type Language = "curl" | "Python" | "JavaScript";
export const LANGUAGES: readonly Language[] = ["curl", "Python", "JavaScript"];

export function makeCodeSample(language: Language, origin: string, body: Record<string, unknown>): string {
  if (language === "curl") {
    const json = JSON.stringify(body).replaceAll("'", "'\\''");
    return `curl ${origin}/v1/chat/completions \\\n  -H "Authorization: Bearer $CORRAL_API_KEY" \\\n  -H "Content-Type: application/json" \\\n  -d '${json}'`;
  }
  const { model, messages, ...rest } = body;
  if (language === "Python") {
    const more = Object.entries(rest).map(([name, value]) => `    ${name}=${JSON.stringify(value)},\n`);
    return `import os\nfrom openai import OpenAI\n\nclient = OpenAI(base_url="${origin}/v1", api_key=os.environ["CORRAL_API_KEY"])\nanswer = client.chat.completions.create(\n    model=${JSON.stringify(model)},\n    messages=${JSON.stringify(messages)},\n${more.join("")})\nprint(answer.choices[0].message.content)`;
  }
  const inside = JSON.stringify({ model, messages, ...rest }, null, 2);
  return `import OpenAI from "openai";\n\nconst client = new OpenAI({ baseURL: "${origin}/v1", apiKey: process.env.CORRAL_API_KEY });\nconst answer = await client.chat.completions.create(${inside});\nconsole.log(answer.choices[0].message.content);`;
}
