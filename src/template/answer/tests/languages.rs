//! The ladder in Chinese, Korean and Python: punctuation, keys, tuples, "nothing", refusals.

use super::*;
use crate::ie::Status;

const TEXT: &str = "王芳在北京大学工作。Ann left Acme in Oslo. 김민수는 삼성전자에서 일한다. 她说“你好”，张三（Zhang San）来了。无事。";

fn schema() -> Schema {
    let mut schema = super::schema();
    let aliases = |all: &[&str]| all.iter().map(|&alias| alias.to_owned()).collect::<Vec<_>>();
    schema.entities[0].aliases = aliases(&["person", "人物", "인물"]);
    schema.entities[1].aliases = aliases(&["organization", "组织", "조직"]);
    schema.relations[0].aliases = aliases(&["任职于", "소속"]);
    schema
}

fn read(raw: &str) -> Reading {
    read_answer(raw, Finish::Stop, TEXT, &schema())
}

/// Entities as `label surface`, relations as `head label tail`, in one line.
fn said(reading: &Reading) -> String {
    let found = &reading.extraction;
    let name = |at: usize| found.entities[at].text.as_str();
    let entities = found.entities.iter().map(|entity| format!("{} {}", entity.label, entity.text));
    let relations =
        found.relations.iter().map(|link| format!("{} {} {}", name(link.head), link.label, name(link.tail)));
    entities.chain(relations).collect::<Vec<_>>().join("; ")
}

#[test]
fn quotes_brackets_and_commas_of_chinese_keyboards_are_json_s_own() {
    for raw in [
        "{“人物”：[“王芳”]，“组织”：[“北京大学”]}",
        "｛「人物」：［「王芳」］，「组织」：［「北京大学」］｝",
        "{『人物』：『王芳』，『组织』：『北京大学』}",
        "{＂人物＂:[＂王芳＂],＂组织＂:[＂北京大学＂]}",
        "{‘人物’:[‘王芳’],‘组织’:[‘北京大学’]}",
        r#"{"人物"："王芳"，"组织"："北京大学"}"#,
        "（人物，王芳）（组织，北京大学）",
        "(人物，王芳)，(组织，北京大学)",
    ] {
        let reading = read(raw);
        assert_eq!(said(&reading), "PER 王芳; ORG 北京大学", "{raw}: {reading:?}");
        assert!(!reading.repairs.is_empty(), "{raw}");
    }
    let listed = read(r#"{"人物":["王芳"、"张三"]}"#);
    assert_eq!(said(&listed), "PER 王芳; PER 张三", "{listed:?}");
    assert_eq!(listed.repairs, ["full-width punctuation"]);
    // Inside a string they are the string's.
    assert_eq!(said(&read(r#"{"人物":["“你好”，张三",],"组织":[]}"#)), "PER “你好”，张三");
}

#[test]
fn tuples_sets_comments_and_ellipses_are_read() {
    for raw in [
        "[('PER','Ann'),('ORG','Acme')]",
        "[('Ann','PER'),('Acme','ORG')]",
        "(PER, Ann), (ORG, Acme)",
        "[(PER, Ann), (ORG, Acme)]",
        "The answer is (PER, Ann) and (ORG, Acme).",
        "[[\"Ann\",\"PER\"],[\"Acme\",\"ORG\"]]",
        "{\"entities\":[[\"Ann\",\"PER\"],[\"Acme\",\"ORG\"]]}",
        "{'PER': ('Ann',), 'ORG': {'Acme'}}",
        "{\"PER\":[\"Ann\", ...], # who\n\"ORG\":[\"Acme\"] /* where */}",
        "{\"PER\":[\"Ann\"], \"ORG\":[\"Acme\"], ...}",
        "{\"Ann\":\"PER\",\"Acme\":\"ORG\"}",
        "\"{\\\"PER\\\":[\\\"Ann\\\"],\\\"ORG\\\":[\\\"Acme\\\"]}\"",
        "{\"entities\":[{\"word\":\"Ann\",\"entity_group\":\"PER\"},{\"span\":\"Acme\",\"Entity Type\":\"ORG\"}]}",
    ] {
        let reading = read(raw);
        assert_eq!(said(&reading), "PER Ann; ORG Acme", "{raw}: {reading:?}");
        assert!(!reading.repairs.is_empty() || raw.contains("entity_group"), "{raw}");
    }
    let link = "{\"PER\":[\"Ann\"],\"ORG\":[\"Acme\"],\"relations\":[('Ann', 'works_for', 'Acme')]}";
    assert_eq!(said(&read(link)), "PER Ann; ORG Acme; Ann works_for Acme");
    let unclear = read("[('PER','ORG')]");
    assert_eq!(unclear.dropped[0].reason, "which part is the type is not plain");
}

#[test]
fn prose_with_brackets_and_colons_stays_prose() {
    for raw in [
        "PER: Ann\nORG: Acme",
        "人物：王芳",
        "Note: Ann (of Acme) left.",
        "(Ann, Acme)",
        "I think: PER is (in general) a person.",
        "注意：王芳（女，教师）",
    ] {
        let reading = read(raw);
        assert_eq!((reading.status, reading.extraction.is_empty()), (Status::Failed, true), "{raw}: {reading:?}");
    }
}

#[test]
fn keys_may_be_chinese_or_korean() {
    for raw in [
        r#"{"实体":[{"文本":"王芳","类型":"人物"},{"名称":"北京大学","类别":"组织"}],"关系":[{"头实体":"王芳","尾实体":"北京大学","关系":"任职于"}]}"#,
        r#"{"实体列表":[{"实体":"王芳","实体类型":"人物"},{"实体名称":"北京大学","标签":"组织"}],"三元组":[["王芳","任职于","北京大学"]]}"#,
        r#"{"实体":{"人物":["王芳"],"组织":["北京大学"]},"关系":{"任职于":[["王芳","北京大学"]]}}"#,
    ] {
        assert_eq!(said(&read(raw)), "PER 王芳; ORG 北京大学; 王芳 works_for 北京大学", "{raw}");
    }
    for raw in [
        r#"{"개체":[{"텍스트":"김민수","유형":"인물"},{"이름":"삼성전자","타입":"조직"}],"관계":[{"주어":"김민수","목적어":"삼성전자","관계":"소속"}]}"#,
        r#"{"엔티티":[{"개체":"김민수","개체 유형":"인물"},{"언급":"삼성전자","라벨":"조직"}],"관계":[{"머리":"김민수","꼬리":"삼성전자","유형":"소속"}]}"#,
    ] {
        assert_eq!(said(&read(raw)), "PER 김민수; ORG 삼성전자; 김민수 works_for 삼성전자", "{raw}");
    }
    for raw in [
        r#"{"事件":[{"类型":"Dismiss","触发词":"left","论元":[{"角色":"Person","文本":"Ann"}]}]}"#,
        r#"{"이벤트":[{"유형":"Dismiss","트리거":"left","논항":[{"역할":"Person","텍스트":"Ann"}]}]}"#,
    ] {
        let events = read(raw).extraction.events;
        assert_eq!((events.len(), events[0].arguments[0].text.as_str()), (1, "Ann"), "{raw}");
    }
    let remark = read(r#"{"entities":[{"text":"Ann","type":"PER","source":"line 1"}]}"#);
    assert_eq!(said(&remark), "PER Ann", "a source alone is no head");
}

#[test]
fn nothing_in_chinese_and_korean_is_empty() {
    for raw in [
        "无",
        "無。",
        "没有",
        "没有实体。",
        "文本中没有实体。",
        "没有找到任何实体。",
        "未发现实体",
        "文中未提及任何组织。",
        "暂无",
        "空",
        "对不起，没有找到实体。",
        "없음",
        "없습니다.",
        "해당 없음",
        "개체가 없습니다.",
        "텍스트에 개체가 없습니다.",
        "엔티티를 찾을 수 없습니다.",
        "죄송합니다. 개체를 찾을 수 없습니다.",
        r#"{"人物":["无"]}"#,
        r#"{"人物":"未提及"}"#,
        r#"{"인물":["없음"],"조직":"해당 없음"}"#,
        r#"[{"text":"无","type":"人物"}]"#,
        "对不起，没有找到实体。{}",
    ] {
        let reading = read(raw);
        assert_eq!((reading.status, reading.error), (Status::Empty, None), "{raw}: {:?}", reading.dropped);
    }
}

#[test]
fn refusals_in_chinese_and_korean_are_refused_and_other_words_fail() {
    for raw in [
        "抱歉，我无法帮助您。",
        "对不起，我不能回答这个问题。",
        "很抱歉，作为一个AI语言模型，我无法完成。",
        "作为人工智能助手，我不能这样做",
        "죄송합니다. 도와드릴 수 없습니다.",
        "죄송하지만 이 요청은 처리할 수 없습니다.",
        "저는 AI 언어 모델로서 할 수 없습니다.",
        "抱歉，我无法帮助您。{}",
    ] {
        assert_eq!(read(raw).status, Status::Refused, "{raw}");
    }
    for raw in [
        "王芳是教师。",
        "没有问题，王芳是人物。",
        "문제 없습니다. 다음 인물이 있습니다",
        "文本中没有人物，但组织是北京大学",
    ] {
        assert_eq!(read(raw).status, Status::Failed, "{raw}");
    }
}

#[test]
fn full_width_letters_and_spaces_between_han_do_not_hide_a_mention() {
    for (surface, expected) in [
        ("ａｎｎ", "PER Ann"),
        ("张三(Zhang San)", "PER 张三（Zhang San）"),
        ("王 芳", "PER 王芳"),
        ("北京\\n大学", "PER 北京大学"),
        ("「你好」", "PER “你好”"),
    ] {
        let reading = read(&format!(r#"{{"PER":["{surface}"]}}"#));
        assert_eq!(said(&reading), expected, "{surface}: {reading:?}");
    }
}
