// docs/reference/problems.md, from the kinds of problems.

import { isNews, problemKinds, problemMeanings, runbookOf } from '../../src/problems/stream-problems.ts'
import { code, generatedBy, sentence, table } from './markdown.ts'

export function problemsPage(): string {
  const row = (kind: (typeof problemKinds)[number]) => [
    `[${code(kind)}](${runbookOf(kind).replace('docs/', '../')})`,
    sentence(problemMeanings[kind]),
  ]
  return [
    generatedBy('src/problems/stream-problems.ts'),
    `# Problems

A problem is something that needs a person. It is shown on every page of the console and by \`tidemark status\`, counted by
\`tidemark_problems{kind}\`, and told to a chat when \`ALERT_WEBHOOK_URL\` is set. Each kind links to its runbook.

## They last until their cause is gone

${table(['kind', 'what it means'], problemKinds.filter((kind) => !isNews(kind)).map(row))}`,
    `## They are told once, and forgotten after a day

${table(['kind', 'what it means'], problemKinds.filter(isNews).map(row))}`,
  ].join('\n')
}
