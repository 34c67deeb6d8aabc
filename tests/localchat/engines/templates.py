"""Chat templates built like those of well-known model families, and what they should give."""

from __future__ import annotations

CHATML = """
{%- for message in messages -%}
    {%- if loop.first and messages[0]['role'] != 'system' -%}
        {{ '<|im_start|>system\\nBe helpful.<|im_end|>\\n' }}
    {%- endif -%}
    {{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}
"""

# Like Llama 3: bos first, headers, contents trimmed.
HEADERS = """
{%- set loop_messages = messages -%}
{%- for message in loop_messages -%}
    {%- set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'
        + message['content'] | trim + '<|eot_id|>' -%}
    {%- if loop.index0 == 0 -%}{%- set content = bos_token + content -%}{%- endif -%}
    {{ content }}
{%- endfor -%}
{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
"""

# Like Gemma: no system role, strict turns, another name for the assistant.
NO_SYSTEM = """
{{- bos_token -}}
{%- if messages[0]['role'] == 'system' -%}{{ raise_exception('System role not supported') }}{%- endif -%}
{%- for message in messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception('Conversation roles must alternate') }}
    {%- endif -%}
    {%- set role = 'model' if message['role'] == 'assistant' else message['role'] -%}
    {{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<start_of_turn>model\\n' }}{%- endif -%}
"""

# Like Mistral: [INST], the system message in the first user turn, eos after answers.
INST = """
{%- if messages[0]['role'] == 'system' -%}
    {%- set system, turns = messages[0]['content'], messages[1:] -%}
{%- else -%}{%- set system, turns = '', messages -%}{%- endif -%}
{{- bos_token -}}
{%- for message in turns -%}
    {%- if message['role'] == 'user' -%}
        {%- if loop.first and system -%}{{ '[INST] ' + system + '\\n\\n' + message['content'] + ' [/INST]' }}
        {%- else -%}{{ '[INST] ' + message['content'] + ' [/INST]' }}{%- endif -%}
    {%- elif message['role'] == 'assistant' -%}{{ ' ' + message['content'] + eos_token }}
    {%- else -%}{{ raise_exception('Only user and assistant roles are supported!') }}{%- endif -%}
{%- endfor -%}
"""

# What the larger ones use: namespace, break, tojson, the date, tests of what is defined.
ALL_MEANS = """
{%- if not tools is defined -%}{%- set tools = none -%}{%- endif -%}
{%- set ns = namespace(last=-1, system='') -%}
{%- if messages[0].role == 'system' -%}{%- set ns.system = messages[0].content -%}{%- endif -%}
{%- for message in messages[::-1] -%}
    {%- if message.role == 'user' -%}
        {%- set ns.last = messages | length - 1 - loop.index0 -%}{%- break -%}
    {%- endif -%}
{%- endfor -%}
{{- '<|system|>' + ns.system + ' ' + strftime_now('%Y') | length | string + '\\n' -}}
{%- for message in messages -%}
    {%- if message.role == 'system' -%}{%- continue -%}{%- endif -%}
    {{- '<|' + message.role + '|>' + {'text': message.content} | tojson
        + ('!' if loop.index0 == ns.last else '') + '\\n' -}}
{%- endfor -%}
{%- if tools is not none -%}{{ tools | tojson }}{%- endif -%}
{{- '<|assistant|>' -}}
"""

# Trainers mark what to learn from; for an answer the mark means nothing.
GENERATION = """
{%- for message in messages -%}
    {%- if message.role == 'assistant' -%}
        {%- generation -%}
            {{ '<|im_start|>assistant\\n' + message.content + '<|im_end|>\\n' }}
        {%- endgeneration -%}
    {%- else -%}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{%- endif -%}
{%- endfor -%}
{{ '<|im_start|>assistant\\n' }}
"""
