// The scripts with which shells complete, tried in those shells that are here.

import { spawnSync } from 'node:child_process'
import { beforeAll, describe, expect, it } from 'vitest'
import type { Command } from '../../src/cli/command.ts'
import { completion, secondWords } from '../../src/cli/completion.ts'
import { verbs } from '../../src/cli/verbs.ts'
import { callCommand } from '../support/verbs.ts'

const has = (shell: string) => spawnSync(shell, ['-c', 'true']).status === 0

describe('completion', () => {
  let commands: readonly Command[]
  const scripts = new Map<string, string>()
  beforeAll(async () => {
    commands = await Promise.all(Object.values(verbs).map((load) => load()))
    for (const shell of ['bash', 'zsh', 'fish'])
      scripts.set(shell, (await callCommand(completion, [shell], {})).stdout)
  })

  /** What bash offers for the last of these words. */
  function offered(...words: readonly string[]): readonly string[] {
    const script = `${scripts.get('bash')}
COMP_WORDS=(tidemark ${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${words.length}; _tidemark; printf '%s\\n' "\${COMPREPLY[@]}"`
    const { stdout, stderr } = spawnSync('bash', ['-c', script], { encoding: 'utf8', cwd: '/' })
    expect(stderr).toBe('')
    return stdout.trim().split('\n')
  }

  it.skipIf(!has('bash'))('of bash knows verbs, their words, options, streams and paths', () => {
    expect(offered('re')).toEqual(['rewind', 'resume', 'reconcile'])
    expect(offered('sync', 'assignment_')).toEqual(['assignment_note', 'assignment_object'])
    expect(offered('sync', 'assignment', '--k')).toEqual(['--kind'])
    expect(offered('deletions', 'a')).toEqual([
      'approve',
      'assignment',
      'assignment_note',
      'assignment_object',
    ])
    expect(offered('api', 'GET', '/api/Assignment/n')).toEqual(['/api/Assignment/neworchanged/'])
    expect(offered('api', 'POST', '/api/Assignment', '--body', 'et')).toEqual(['etc'])
    expect(offered('help', 'qu')).toEqual(['quarantine'])
    expect(offered('nothing', '')).toEqual([''])
  })

  it.each(['bash', 'zsh', 'fish'])('of %s has every verb with its options, and is well formed', (shell) => {
    const script = scripts.get(shell) ?? ''
    for (const { name, options } of commands) {
      expect(script).toContain(name)
      for (const option of Object.keys(options))
        expect(script).toContain(shell === 'fish' ? ` -l ${option}` : `--${option}`)
    }
    if (has(shell)) expect(spawnSync(shell, ['-n'], { input: script, encoding: 'utf8' }).stderr).toBe('')
  })

  it.each([
    ['alerts', 'list test receiver rule remove undo mute unmute ack rules'],
    ['sources', 'list check apply export pause resume drop'],
    ['config', 'set unset'],
    ['actions', 'verify'],
    ['token', 'create list revoke'],
    ['quarantine', 'list show retry drop'],
    ['webhooks', 'definitions list get create update delete'],
    ['contract', 'history streams'],
    ['runs', 'list show'],
    ['sync', ''],
    ['schema', ''],
    ['export', ''],
    ['api', ''],
  ])('knows the second words of %s', (verb, words) => {
    const usage = commands.find(({ name }) => name === verb)?.usage ?? ''
    expect(secondWords(usage).join(' ')).toBe(words)
  })

  it('of other shells is not there', async () => {
    await expect(callCommand(completion, ['powershell'], {})).rejects.toThrow('bash, zsh or fish')
  })
})
