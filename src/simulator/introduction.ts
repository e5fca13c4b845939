// What somebody needs who has just started the stand-in: where it is, who may sign in, and something to paste.

import type { Simulator } from './simulator.ts'

type Known = Pick<
  Simulator,
  'authUrl' | 'assignmentUrl' | 'trackingUrl' | 'credentials' | 'behaviour' | 'source'
>

export function introduction(simulator: Known): string {
  const { authUrl, assignmentUrl, trackingUrl, credentials, source } = simulator
  const { clientGuid, subjectId, apiKey } = credentials
  const signIn = JSON.stringify({ clientId: 3, subjectId, apiKey })
  return `The stand-in upstream is up; Ctrl-C stops it.

  identity provider    ${authUrl}
  assignment service   ${assignmentUrl}
  tracking service     ${trackingUrl}
  records              ${source.count('assignment')} assignments, ${source.count('assignment_note')} notes, ${source.count('assignment_object')} objects, ${source.count('tracker_object')} vehicles

For a .env file:

ASSIGNMENT_BASE_URL=${assignmentUrl}
TRACKING_BASE_URL=${trackingUrl}
AUTH_URL=${authUrl}
CLIENT_GUID=${clientGuid}
SUBJECT_ID=${subjectId}
API_KEY=${apiKey}

To sign in, and to ask for five assignments:

TOKEN=$(curl -s ${authUrl}/Token/GenerateAccessTokenFromCache -H 'Content-Type: application/json' \\
  -d ${shellQuoted(signIn)} | ${tokenCut(simulator.behaviour)})
curl -s '${assignmentUrl}/api/Assignment/neworchanged/0?Page=1&PageSize=5&Sorts=RowVersion' \\
  -H "Authorization: Bearer $TOKEN" -H 'clientId: ${clientGuid}'

`
}

const shellQuoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`

function tokenCut({ tokenShape, tokenField }: Simulator['behaviour']): string {
  if (tokenShape === 'plain-text') return 'cat'
  return tokenShape === 'json-string'
    ? `tr -d '"'`
    : shellFilter(`s/.*"${tokenField.replace(/[^\w-]/g, '.')}":"\\([^"]*\\)".*/\\1/`)
}

const shellFilter = (expression: string) => `sed ${shellQuoted(expression)}`
