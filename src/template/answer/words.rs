//! What an answer without JSON says: that nothing is there, or that the model declines.

/// Texts that stand for "nothing" where an item is asked for.
const NOTHING: [&str; 12] =
    ["none", "null", "nil", "n/a", "na", "nothing", "no", "empty", "not applicable", "not found", "-", "—"];

/// The same in Chinese and Korean. Such a word is never a mention: it would stand inside half of
/// all texts, since these scripts do not separate words.
const NOTHING_CJK: [&str; 37] = [
    "无",
    "無",
    "没有",
    "沒有",
    "空",
    "暂无",
    "不存在",
    "未提及",
    "未提到",
    "没有提及",
    "没有提到",
    "未找到",
    "未发现",
    "没有找到",
    "没有发现",
    "不适用",
    "未知",
    "否",
    "无实体",
    "无关系",
    "无事件",
    "없음",
    "없습니다",
    "없다",
    "없어요",
    "해당없음",
    "해당 없음",
    "해당사항 없음",
    "해당 사항 없음",
    "언급 없음",
    "언급되지 않음",
    "찾을 수 없음",
    "찾을 수 없습니다",
    "아니오",
    "아니요",
    "알 수 없음",
    "미상",
];

/// How a sentence in Chinese says that nothing was found, and what it calls what is asked for.
const NONE_ZH: [&str; 22] = [
    "没有找到",
    "没找到",
    "未找到",
    "没有发现",
    "没发现",
    "未发现",
    "没有提及",
    "未提及",
    "没有提到",
    "未提到",
    "不包含",
    "不存在",
    "没有任何",
    "无任何",
    "没有识别",
    "未识别",
    "没有出现",
    "未出现",
    "找不到",
    "没有包含",
    "未包含",
    "沒有",
];
const THINGS_ZH: [&str; 12] =
    ["实体", "實體", "关系", "關係", "事件", "三元组", "结果", "内容", "信息", "组织", "人物", "地点"];

/// The same in Korean.
const NONE_KO: [&str; 9] = [
    "찾을 수 없",
    "발견되지 않",
    "찾지 못",
    "포함되어 있지 않",
    "포함되지 않",
    "언급되지 않",
    "존재하지 않",
    "나타나지 않",
    "없습니다",
];
const THINGS_KO: [&str; 12] =
    ["개체", "엔티티", "엔터티", "관계", "이벤트", "사건", "항목", "결과", "해당", "언급", "텍스트", "문장"];

/// What makes such a sentence say more than that: a refusal, or an exception.
const MORE: [&str; 30] = [
    "帮助",
    "协助",
    "提供",
    "回答",
    "满足",
    "完成",
    "处理",
    "请求",
    "但",
    "不过",
    "除了",
    "只有",
    "然而",
    "是",
    "为：",
    "도와",
    "도움",
    "제공",
    "답변",
    "처리",
    "요청",
    "응답",
    "하지만",
    "그러나",
    "다만",
    "제외",
    "외에",
    "입니다만",
    "없습니다만",
    "뿐",
];

/// How a refusal opens in Chinese or Korean; no space need follow.
const REFUSALS_CJK: [&str; 29] = [
    "抱歉",
    "很抱歉",
    "非常抱歉",
    "十分抱歉",
    "我很抱歉",
    "对不起",
    "對不起",
    "不好意思",
    "我无法",
    "我無法",
    "我不能",
    "我拒绝",
    "恕我",
    "无法提供",
    "作为一个ai",
    "作为ai",
    "作为人工智能",
    "作为一个人工智能",
    "作为一名ai",
    "죄송",
    "미안",
    "유감",
    "안타깝지만",
    "저는 ai",
    "저는 인공지능",
    "ai 언어 모델",
    "도와드릴 수 없",
    "제공할 수 없",
    "답변할 수 없",
];

/// What is asked for, as a sentence may call it.
const THINGS: [&str; 12] = [
    "entity",
    "entities",
    "relation",
    "relations",
    "relationship",
    "relationships",
    "event",
    "events",
    "mention",
    "mentions",
    "result",
    "results",
];

/// How a refusal opens.
const REFUSALS: [&str; 20] = [
    "i can't",
    "i cannot",
    "i can not",
    "i am unable",
    "i'm unable",
    "i am not able",
    "i'm not able",
    "i won't",
    "i will not",
    "i must decline",
    "i'm sorry",
    "i am sorry",
    "sorry",
    "i apologize",
    "i apologise",
    "as an ai",
    "unfortunately, i",
    "i do not feel comfortable",
    "i'm not comfortable",
    "my apologies",
];

/// Longest sentence that is read as "nothing found"; longer ones say more than that.
const LONGEST: usize = 200;

/// Lower case, typographic apostrophes plain, no edge punctuation.
fn plain(text: &str) -> String {
    let lower = text.to_lowercase().replace(['’', '‘'], "'");
    lower
        .trim_matches(|c: char| {
            c.is_whitespace() || ".!?:;,*_`\"'()[]<>。！？：；，、“”「」『』（）【】《》…".contains(c)
        })
        .to_owned()
}

/// Whether an item's text is a placeholder for "nothing".
pub(super) fn is_placeholder(text: &str) -> bool {
    text.chars().count() <= 20 && {
        let plain = plain(text);
        plain.is_empty() || NOTHING.contains(&plain.as_str()) || NOTHING_CJK.contains(&plain.as_str())
    }
}

/// Whether an item's text is Chinese or Korean for "nothing".
pub(super) fn is_nothing_cjk(text: &str) -> bool {
    text.len() <= 60 && !text.is_ascii() && NOTHING_CJK.contains(&plain(text).as_str())
}

/// Whether a sentence in Chinese or Korean says that nothing is there.
fn says_nothing_cjk(said: &str) -> bool {
    // "Sorry, but" is no exception.
    let said = said.strip_prefix("죄송하지만").unwrap_or(said).trim();
    let any_of = |words: &[&str]| words.iter().any(|word| said.contains(word));
    if said.is_ascii() || said.contains([':', '：', '\n']) || said.chars().count() > 60 || any_of(&MORE) {
        return false;
    }
    let chinese = any_of(&NONE_ZH) || (said.contains(['无', '無']) || said.contains("没有")) && any_of(&THINGS_ZH);
    let korean = any_of(&NONE_KO) || (said.contains("없음") || said.contains("없다")) && any_of(&THINGS_KO);
    let short = said.chars().count() <= 12;
    chinese && (short || any_of(&THINGS_ZH)) || korean && (short || any_of(&THINGS_KO))
}

/// Whether the words say that nothing is there: `None`, `NO`, `No entities found.`
pub(super) fn says_nothing(words: &str) -> bool {
    if words.len() > LONGEST {
        return false;
    }
    let said = plain(words);
    if said.is_empty() {
        return false;
    }
    if NOTHING.contains(&said.as_str()) || NOTHING_CJK.contains(&said.as_str()) || says_nothing_cjk(&said) {
        return true;
    }
    let tokens: Vec<&str> =
        said.split(|c: char| !(c.is_alphanumeric() || c == '\'')).filter(|t| !t.is_empty()).collect();
    let any_of = |words: &[&str]| tokens.iter().any(|token| words.contains(token));
    if said.contains([':', '\n']) || any_of(&["help", "assist", "provide", "comply"]) {
        return false;
    }
    let thing = any_of(&THINGS);
    let has = |phrase: &str| format!(" {} ", tokens.join(" ")).contains(&format!(" {phrase} "));
    let negated =
        any_of(&["not", "cannot", "no", "none", "nothing"]) || tokens.iter().any(|token| token.ends_with("n't"));
    let found = ["found", "find any", "identify any", "contain any", "mention any", "present"].into_iter().any(has);
    let first = said.split([',', '.', ';', '!']).next().unwrap_or_default();
    let opening = |token: &str| THINGS.contains(&token) || token == "found";
    match tokens.first() {
        // "No entities found", but not "No problem, the entities are …".
        Some(&"no") => first.split_whitespace().any(opening) && !any_of(&["but", "however", "except", "only"]),
        Some(&"none" | &"nothing") => tokens.len() <= 6 && found,
        _ => negated && thing && (found || has("no")),
    }
}

/// Whether the words are a refusal.
pub(super) fn refuses(words: &str) -> bool {
    let said = plain(words);
    REFUSALS
        .iter()
        .any(|opening| said.strip_prefix(opening).is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric())))
        || REFUSALS_CJK.iter().any(|opening| said.starts_with(opening))
}
