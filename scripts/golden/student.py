"""Numbers for tests/golden.rs, from PyTorch, transformers and PEFT in f32 on the CPU.

    pip install torch transformers peft safetensors gguf
    python scripts/golden/student.py tiny tests/golden
    python scripts/golden/student.py chat tests/golden/chat.json
    python scripts/golden/student.py real SmolLM2-135M-Instruct.Q4_1.gguf tests/golden/smollm2.json

`tiny` writes models with random, non-uniform weights (untied, tied, and with Qwen biases and
norms), their logits, and the LoRA gradients of one summed loss. `chat` renders conversations with
several ways of writing a chat template. `real` lets transformers read the GGUF file itself and
keeps, per position, the eight highest logits and 64 strided ones, and the ids of a conversation.
"""

import json
import math
import sys
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config, Qwen3Config

TOKENS = [3, 17, 40, 5, 61, 8, 22, 22, 50, 1, 33, 12]
SUPERVISED = range(7, 12)
SHAPE = dict(
    vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, head_dim=16, max_position_embeddings=128, rms_norm_eps=1e-5, rope_theta=5000.0,
    attention_dropout=0.0,
)
LLAMA3 = dict(rope_type="llama3", rope_theta=5000.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=32)
TEXT = (
    "Extract every person, place and organisation. Text: On 4 March 1861 Abraham Lincoln took the oath of office in "
    "Washington, D.C., while delegates of seven states met in Montgomery, Alabama; the New York Times (founded 1851) "
    "printed 12,000 extra copies. Na\u00efve caf\u00e9 owners \u2014 \u00ables propri\u00e9taires\u00bb \u2014 in \u6771\u4eac "
    "did not care.\n\n- Answer: PER: Abraham Lincoln; LOC: Washington, D.C.; LOC: Montgomery"
)


def randomise(model, seed):
    """Weights whose rows, columns and tensors all differ; norms around one."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in sorted(model.named_parameters()):
        noise = torch.randn(parameter.shape, generator=generator)
        with torch.no_grad():
            if "norm" in name:
                parameter.copy_(1 + 0.3 * noise)
            elif parameter.dim() == 1:
                parameter.copy_(0.3 * noise)
            else:
                parameter.copy_(noise * 1.5 / math.sqrt(parameter.shape[1]))


def tiny(out):
    models = {
        "llama": LlamaConfig(**SHAPE, tie_word_embeddings=False),
        "llama-tied": LlamaConfig(**{k: v for k, v in SHAPE.items() if k != "rope_theta"}, tie_word_embeddings=True,
                                  rope_parameters=LLAMA3),
        "qwen2": Qwen2Config(**{k: v for k, v in SHAPE.items() if k != "head_dim"}, tie_word_embeddings=True),
        "qwen3": Qwen3Config(**SHAPE, tie_word_embeddings=False),
    }
    for number, (name, config) in enumerate(models.items()):
        torch.manual_seed(number)
        config._attn_implementation = "eager"
        model = AutoModelForCausalLM.from_config(config).float().eval()
        randomise(model, 10 + number)
        path = out / name
        path.mkdir(parents=True, exist_ok=True)
        model.save_pretrained(path)
        (path / "generation_config.json").unlink(missing_ok=True)
        ids = torch.tensor([TOKENS])
        logits = model(ids).logits[0].detach()
        golden = {"tokens": torch.tensor(TOKENS), "logits": logits.contiguous()}
        if name == "llama":
            golden |= lora(model, ids, path)
        save_file(golden, path / "golden.safetensors")


def lora(model, ids, path):
    """One step's loss and gradients; B is random too, so that A has a gradient."""
    targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    config = LoraConfig(r=4, lora_alpha=6, target_modules=targets, task_type="CAUSAL_LM", bias="none")
    model = get_peft_model(model, config)
    generator = torch.Generator().manual_seed(7)
    for name, parameter in sorted(model.named_parameters()):
        if "lora_" in name:
            with torch.no_grad():
                parameter.copy_(0.2 * torch.randn(parameter.shape, generator=generator))
    model.eval()
    logits = model(ids).logits[0]
    targets = list(SUPERVISED)
    picked = logits[[t - 1 for t in targets]]
    loss = torch.nn.functional.cross_entropy(picked, ids[0][targets], reduction="sum")
    loss.backward()
    model.save_pretrained(path / "adapter")
    (path / "adapter" / "README.md").unlink(missing_ok=True)
    config = path / "adapter" / "adapter_config.json"
    written = json.loads(config.read_text())
    written["base_model_name_or_path"] = "tiny"
    written["target_modules"] = sorted(written["target_modules"])
    config.write_text(json.dumps(written, indent=2, sort_keys=True) + "\n")
    golden = {"adapted_logits": logits.detach().contiguous(), "loss": loss.detach().reshape(1)}
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            key = name.removeprefix("base_model.model.").replace(".default", "")
            golden["grad." + key] = parameter.grad.contiguous()
    return golden


def real(path, out):
    from transformers import AutoTokenizer

    path = Path(path)
    model = AutoModelForCausalLM.from_pretrained(
        path.parent, gguf_file=path.name, dtype=torch.float32, attn_implementation="eager").eval()
    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    ids = tokenizer(TEXT, add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0]
    stride = logits.shape[1] // 64
    top = logits.topk(8)
    chat = tokenizer.apply_chat_template(CONVERSATIONS[1], add_generation_prompt=True, return_dict=False)
    golden = {
        "text": TEXT, "ids": ids, "stride": stride,
        "top_ids": top.indices.tolist(),
        "top_logits": [[round(x, 5) for x in row] for row in top.values.tolist()],
        "sample": [[round(x, 5) for x in row] for row in logits[:, ::stride][:, :64].tolist()],
        "messages": CONVERSATIONS[1], "chat_ids": chat,
    }
    Path(out).write_text(json.dumps(golden, ensure_ascii=True) + "\n")


CONVERSATIONS = [
    [{"role": "user", "content": "  Who left?\n"}],
    [{"role": "system", "content": "You extract\nfacts. "}, {"role": "user", "content": " Ann left Rome in 1999. "}],
    [{"role": "system", "content": "s"}, {"role": "user", "content": "a <b> & 'c' \u00e9"},
     {"role": "assistant", "content": " {\"x\": 1}"}, {"role": "user", "content": "d"}],
]

# The ways in which published templates are written: concatenation, trimming and dates, white
# space control and namespaces, methods and slices, training tags, filters.
TEMPLATES = {
    "concatenated": """{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system
Be good.<|im_end|>
' }}{% endif %}{{'<|im_start|>' + message['role'] + '
' + message['content'] + '<|im_end|>' + '
'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant
' }}{% endif %}""",
    "trimmed": """{{- bos_token }}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\n\nToday Date: " + date_string + "\n\n" + system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %}
""",
    "namespaced": """{%- if tools %}
    {{- raise_exception('no tools here') }}
{%- else %}
    {%- if messages[0].role == 'system' %}
        {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
    {%- endif %}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {%- set content = message.content %}
        {%- if '</think>' in content %}
            {%- set content = content.split('</think>')[-1].lstrip('\n') %}
        {%- endif %}
        {{- '<|im_start|>' + message.role + '\n' + content }}
        {{- '<|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %}""",
    "blocks": """{% for message in messages %}
    {% if message.role == "user" %}
[INST] {{ message.content.strip() }} [/INST]
    {% elif message.role == "assistant" %}
        {%- generation %}
 {{ message.content }}{{ eos_token }}
        {%- endgeneration %}

    {% else %}
<<{{ message.role.upper() }}: {{ message.content }}>>
    {% endif %}
{% endfor %}
{{ {"n": 1.5, "none": none, "roles": ["<a>", "b & 'c'"]} | tojson }}
{{ ["x", {"y": 2}] | tojson(indent=2) }}
""",
}


def chat(out):
    from transformers.utils.chat_template_utils import render_jinja_template

    tokens = {"bos_token": "<s>", "eos_token": "</s>"}
    cases = []
    for name, template in TEMPLATES.items():
        # The clock is not to decide: a date that both sides know.
        fixed = template.replace('strftime_now("%d %b %Y")', '"26 Jul 2024"')
        for messages in CONVERSATIONS:
            for ask in [True, False]:
                text, _ = render_jinja_template([messages], chat_template=fixed, add_generation_prompt=ask,
                                                enable_thinking=False, **tokens)
                cases.append({"name": name, "messages": messages, "ask": ask, "text": text[0]})
    golden = {"tokens": tokens, "templates": TEMPLATES, "cases": cases}
    Path(out).write_text(json.dumps(golden, indent=1, ensure_ascii=True) + "\n")


if __name__ == "__main__":
    verb, *paths = sys.argv[1:]
    {"tiny": tiny, "chat": chat, "real": real}[verb](*map(Path, paths))
