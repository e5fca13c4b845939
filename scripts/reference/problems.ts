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

A problem is something that needs your attention. The console and \`tidemark status\` show it, \`tidemark_problems{kind}\` counts it, and it [alerts](../guides/alerts.md)
tell of it. Each kind links to its runbook.

## Problems that last until their cause is gone

${table(['kind', 'what it means'], problemKinds.filter((kind) => !isNews(kind)).map(row))}`,
    `## For information: these close after a day

${table(['kind', 'what it means'], problemKinds.filter(isNews).map(row))}`,
  ].join('\n')
}
