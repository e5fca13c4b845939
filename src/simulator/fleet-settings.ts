// With which settings a worker reads a fleet: variables for its environment, which describe the first client, and a file of sources for the
// others.

import type { FleetClient } from './fleet.ts'

export type FleetSettings = {
  readonly environment: Readonly<Record<string, string>>
  readonly file: {
    readonly generation: number
    readonly defaults: Readonly<Record<string, string>>
    readonly sources: Readonly<Record<string, Readonly<Record<string, string>>>>
  }
}

const streams = 'assignment,assignment_note,assignment_object'

export function fleetSettings([first, ...others]: readonly FleetClient[]): FleetSettings {
  if (!first) throw new Error('A fleet needs a client.')
  const keys = new Map<string, string>()
  const keyOf = ({ credentials: { apiKey } }: FleetClient): string => {
    const name = keys.get(apiKey) ?? `SIMULATOR_KEY_${keys.size + 1}`
    keys.set(apiKey, name)
    return name
  }
  const sources = Object.fromEntries(
    others.map((client) => [
      client.name,
      {
        assignment_base_url: client.assignmentUrl,
        auth_url: client.authUrl,
        client_guid: client.credentials.clientGuid,
        subject_id: client.credentials.subjectId,
        api_key: `env:${keyOf(client)}`,
        source_timezone: client.behaviour.timeZone,
      },
    ]),
  )
  return {
    environment: {
      ASSIGNMENT_BASE_URL: first.assignmentUrl,
      AUTH_URL: first.authUrl,
      CLIENT_GUID: first.credentials.clientGuid,
      SUBJECT_ID: first.credentials.subjectId,
      API_KEY: first.credentials.apiKey,
      SOURCE_TIMEZONE: first.behaviour.timeZone,
      STREAMS: streams,
      ...Object.fromEntries([...keys].map(([apiKey, name]) => [name, apiKey])),
    },
    file: { generation: 1, defaults: { streams }, sources },
  }
}
