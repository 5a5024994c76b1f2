//! One item of an answer: a mention, a relation or an event as an object, or a bare string.

use super::claims::{Claim, Collector, End, Happening, Link, Section, short};
use super::json::{Node, Text, Value};
use super::words::{is_nothing_cjk, is_placeholder};

/// Keys that may carry a surface, a label, and the two ends of a relation, in the order in which
/// they are looked for; case, spaces, `_` and `-` do not count.
const TEXT_KEYS: [&str; 24] = [
    "text",
    "name",
    "mention",
    "entity",
    "word",
    "span",
    "surface",
    "value",
    "entitytext",
    "entityname",
    "文本",
    "名称",
    "实体",
    "实体名称",
    "实体名",
    "实体文本",
    "提及",
    "텍스트",
    "이름",
    "개체",
    "개체명",
    "엔티티",
    "엔터티",
    "언급",
];
const LABEL_KEYS: [&str; 22] = [
    "type",
    "label",
    "entitytype",
    "category",
    "class",
    "tag",
    "entitygroup",
    "entitylabel",
    "类型",
    "类别",
    "标签",
    "实体类型",
    "实体类别",
    "유형",
    "타입",
    "라벨",
    "레이블",
    "종류",
    "개체유형",
    "엔티티유형",
    "엔터티유형",
    "사건유형",
];
const HEAD_KEYS: [&str; 15] = [
    "head",
    "subject",
    "headentity",
    "subj",
    "source",
    "from",
    "头实体",
    "头",
    "主体",
    "主语",
    "머리",
    "헤드",
    "주어",
    "주체",
    "머리개체",
];
const TAIL_KEYS: [&str; 15] = [
    "tail",
    "object",
    "tailentity",
    "obj",
    "target",
    "to",
    "尾实体",
    "尾",
    "客体",
    "宾语",
    "꼬리",
    "테일",
    "목적어",
    "객체",
    "꼬리개체",
];
/// Of these one alone says nothing: a source or a target may be a remark.
const WEAK_ENDS: [&str; 4] = ["source", "from", "target", "to"];
const LINK_KEYS: [&str; 20] = [
    "type",
    "label",
    "relation",
    "predicate",
    "relationtype",
    "relationship",
    "rel",
    "关系类型",
    "关系",
    "谓词",
    "谓语",
    "类型",
    "类别",
    "标签",
    "관계유형",
    "관계",
    "유형",
    "타입",
    "라벨",
    "서술어",
];
const EVENT_KEYS: [&str; 12] = [
    "type",
    "label",
    "eventtype",
    "event",
    "类型",
    "类别",
    "事件类型",
    "유형",
    "타입",
    "이벤트유형",
    "사건유형",
    "라벨",
];
const TRIGGER_KEYS: [&str; 5] = ["trigger", "triggerword", "触发词", "트리거", "촉발어"];
const ARGUMENT_KEYS: [&str; 6] = ["arguments", "roles", "论元", "参数", "논항", "인자"];
const ROLE_KEYS: [&str; 5] = ["role", "角色", "论元角色", "역할", "논항역할"];
const CONFIDENCE_KEYS: [&str; 5] = ["confidence", "置信度", "신뢰도", "확신도", "score"];

/// The members of an object.
pub(super) type Pairs = [(Text, Node)];

impl Collector<'_> {
    /// What a map is an item of, by its keys; `None` if its keys are labels or sections.
    pub fn item_kind(&mut self, pairs: &Pairs) -> Option<Section> {
        let strong =
            |key: &Text, names: &[&str]| names.iter().any(|name| is_key(key, name) && !WEAK_ENDS.contains(name));
        let both = field(pairs, &HEAD_KEYS).is_some() && field(pairs, &TAIL_KEYS).is_some();
        let end = |key: &Text| strong(key, &HEAD_KEYS) || strong(key, &TAIL_KEYS);
        let weak = |key: &Text| both && WEAK_ENDS.iter().any(|name| is_key(key, name));
        if let Some((key, _)) = pairs.iter().find(|(key, _)| end(key) || weak(key)) {
            return (!self.is_label(&key.content)).then_some(Section::Relations);
        }
        if let Some((key, _)) = pairs.iter().find(|(key, _)| TRIGGER_KEYS.iter().any(|name| is_key(key, name))) {
            return (!self.is_label(&key.content)).then_some(Section::Events);
        }
        let (key, value) = TEXT_KEYS.iter().find_map(|name| pairs.iter().find(|(key, _)| is_key(key, name)))?;
        let typed = field(pairs, &LABEL_KEYS).is_some();
        let scalar = !matches!(value.value, Value::List(_) | Value::Map(_));
        (scalar && (typed || !self.is_label(&key.content))).then_some(Section::Entities)
    }

    /// Whether a map inside a section is an item of it, if perhaps one that lacks something.
    pub fn is_item(&mut self, pairs: &Pairs) -> bool {
        let typed = field(pairs, &LABEL_KEYS).is_some();
        self.item_kind(pairs).is_some() || (typed && !pairs.iter().any(|(key, _)| self.is_label(&key.content)))
    }

    /// An object: its own label, or the one it is grouped under.
    pub fn item(&mut self, section: Section, pairs: &Pairs, node: &Node, group: Option<(&Text, Option<String>)>) {
        if doubled(pairs) {
            return self.drop_node(node, "a key is given twice");
        }
        let keys: &[&str] = match section {
            Section::Entities => &LABEL_KEYS,
            Section::Relations => &LINK_KEYS,
            Section::Events => &EVENT_KEYS,
        };
        let own = field(pairs, keys);
        let label = match (own.map(|node| &node.value), group) {
            (Some(Value::Text(text)), _) => {
                self.label(section, &text.content).ok_or(format!("unknown label \"{}\"", short(&text.content)))
            }
            (None | Some(Value::Null), Some((_, Some(label)))) => Ok(label),
            (None | Some(Value::Null), Some((key, None))) => Err(format!("unknown label \"{}\"", short(&key.content))),
            (None | Some(Value::Null), None) => Err("no type".to_owned()),
            (Some(_), _) => Err("the type is not a string".to_owned()),
        };
        let confidence = field(pairs, &CONFIDENCE_KEYS).and_then(|node| self.confidence(node));
        match section {
            Section::Entities => self.entity(pairs, node, label, confidence),
            Section::Relations => self.relation(pairs, node, label, confidence),
            Section::Events => self.event(pairs, node, label, confidence),
        }
    }

    fn entity(&mut self, pairs: &Pairs, node: &Node, label: Result<String, String>, confidence: Option<f64>) {
        match (field(pairs, &TEXT_KEYS).map(|node| &node.value), label) {
            (Some(Value::Text(text)), Ok(label)) => self.claim(label, text, confidence),
            (Some(Value::Text(text)), Err(_)) if is_placeholder(&text.content) => self.claims.placeholders += 1,
            (Some(Value::Text(text)), Err(reason)) => self.drop(&text.content, reason),
            (None | Some(Value::Null), _) => self.drop_node(node, "no text"),
            (Some(_), _) => self.drop_node(node, "the text is not a string"),
        }
    }

    pub fn claim(&mut self, label: String, text: &Text, confidence: Option<f64>) {
        if text.spoilt {
            return self.drop(&text.content, "half of a surrogate pair");
        }
        if is_nothing_cjk(&text.content) {
            self.claims.placeholders += 1;
            return;
        }
        let claim = Claim { label, text: text.content.clone(), confidence, bytes: text.bytes.clone() };
        self.claims.entities.push(claim);
    }

    fn relation(&mut self, pairs: &Pairs, node: &Node, label: Result<String, String>, confidence: Option<f64>) {
        let label = match label {
            Ok(label) => label,
            Err(reason) => return self.drop_node(node, reason),
        };
        let mut ends = Vec::with_capacity(2);
        for (keys, name) in [(&HEAD_KEYS, "head"), (&TAIL_KEYS, "tail")] {
            let Some(end) = field(pairs, keys).filter(|end| end.value != Value::Null) else {
                return self.drop_node(node, format!("no {name}"));
            };
            match self.end(end) {
                Some(end) => ends.push(end),
                None => return self.drop_node(node, format!("the {name} is not a string")),
            }
        }
        if let (Some(tail), Some(head)) = (ends.pop(), ends.pop()) {
            self.claims.links.push(Link { label, head, tail, confidence, bytes: node.bytes.clone() });
        }
    }

    fn end(&mut self, node: &Node) -> Option<End> {
        match &node.value {
            Value::Text(text) if !text.spoilt => Some(End { text: text.content.clone(), label: None }),
            Value::Map(pairs) => {
                let text = surface(field(pairs, &TEXT_KEYS)?)?;
                let label =
                    field(pairs, &LABEL_KEYS).and_then(surface).and_then(|label| self.label(Section::Entities, &label));
                Some(End { text, label })
            }
            _ => None,
        }
    }

    fn event(&mut self, pairs: &Pairs, node: &Node, label: Result<String, String>, confidence: Option<f64>) {
        let label = match label {
            Ok(label) => label,
            Err(reason) => return self.drop_node(node, reason),
        };
        let Some(trigger) = field(pairs, &TRIGGER_KEYS).and_then(surface) else {
            return self.drop_node(node, "an event needs a trigger");
        };
        let mut arguments = Vec::new();
        match field(pairs, &ARGUMENT_KEYS).map(|node| &node.value) {
            None | Some(Value::Null) => {}
            Some(Value::List(items)) => {
                for item in items {
                    let parts = match &item.value {
                        Value::Map(pairs) => {
                            field(pairs, &ROLE_KEYS).and_then(surface).zip(field(pairs, &TEXT_KEYS).and_then(surface))
                        }
                        _ => None,
                    };
                    match parts {
                        Some((role, text)) => self.argument(&label, &role, text, &mut arguments),
                        None => self.drop_node(item, "an argument needs a role and a text"),
                    }
                }
            }
            Some(Value::Map(roles)) => {
                for (role, value) in roles {
                    let fillers = match &value.value {
                        Value::List(items) => items.as_slice(),
                        _ => std::slice::from_ref(value),
                    };
                    for filler in fillers.iter().filter(|filler| filler.value != Value::Null) {
                        match surface(filler) {
                            Some(text) => self.argument(&label, &role.content, text, &mut arguments),
                            None => self.drop_node(filler, "an argument needs a role and a text"),
                        }
                    }
                }
            }
            Some(_) => self.drop_node(node, "the arguments are not a list"),
        }
        let item = self.raw[node.bytes.clone()].to_owned();
        self.claims.happenings.push(Happening { label, trigger, arguments, confidence, item });
    }

    fn argument(&mut self, event: &str, role: &str, text: String, arguments: &mut Vec<(String, String)>) {
        let same = |known: &str| known.trim().to_lowercase() == role.trim().to_lowercase();
        let kind = self.schema.events.iter().find(|kind| kind.label == event);
        match kind.and_then(|kind| kind.roles.iter().find(|known| same(&known.label))) {
            Some(known) => arguments.push((known.label.clone(), text)),
            None => self.drop(&text, format!("unknown role \"{}\"", short(role))),
        }
    }

    /// The table in the module's head: numbers and numeric strings in `0..=1`, and percents.
    fn confidence(&mut self, node: &Node) -> Option<f64> {
        let written = match &node.value {
            Value::Null => return None,
            Value::Number(written) | Value::Word(written) => written.trim(),
            Value::Text(text) => text.content.trim(),
            _ => "",
        };
        let number = |text: &str| text.trim().parse::<f64>().ok();
        let read = match written.strip_suffix('%') {
            Some(percent) => number(percent).map(|percent| percent / 100.0),
            None => number(written),
        };
        let known = read.filter(|value| (0.0..=1.0).contains(value));
        if known.is_none() {
            self.note("confidence that cannot be read left unknown");
        }
        known
    }
}

fn is_key(key: &Text, name: &str) -> bool {
    let written =
        key.content.chars().filter(|c| !c.is_whitespace() && !"_-".contains(*c)).map(|c| c.to_ascii_lowercase());
    written.eq(name.chars())
}

/// Whether a key names a part of an item.
pub(super) fn is_field(key: &Text) -> bool {
    let parts = [&TEXT_KEYS[..], &LABEL_KEYS, &HEAD_KEYS, &TAIL_KEYS, &LINK_KEYS, &EVENT_KEYS, &CONFIDENCE_KEYS];
    parts.into_iter().flatten().any(|name| is_key(key, name))
}

/// The value of the first of `names` that is there.
fn field<'a>(pairs: &'a Pairs, names: &[&str]) -> Option<&'a Node> {
    names.iter().find_map(|name| pairs.iter().find(|(key, _)| is_key(key, name)).map(|(_, node)| node))
}

/// The string itself, or the text of an object.
fn surface(node: &Node) -> Option<String> {
    match &node.value {
        Value::Text(text) if !text.spoilt => Some(text.content.clone()),
        Value::Map(pairs) => match &field(pairs, &TEXT_KEYS)?.value {
            Value::Text(text) if !text.spoilt => Some(text.content.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// Whether an item names one of its own keys twice, so that it is two items in one.
fn doubled(pairs: &Pairs) -> bool {
    let known = TEXT_KEYS.iter().chain(&LINK_KEYS).chain(&HEAD_KEYS).chain(&TAIL_KEYS).chain(&TRIGGER_KEYS);
    known.into_iter().any(|name| pairs.iter().filter(|(key, _)| is_key(key, name)).count() > 1)
}
