import Basics

/// Tags of objects, as every provider writes them.
enum Tagging {
    /// From a header: `a=1&b=two%20words`.
    static func read(header: String) -> [Field] {
        ServerRequest.parse(Substring(header)).map { Field($0.name, $0.value.description) }
    }

    /// From `Tagging/TagSet/Tag`; nil when the document is another.
    static func read(document: [UInt8]) -> [Field]? {
        guard let set = XMLReader.parse(document)?["TagSet"] else { return nil }
        var tags: [Field] = []
        for tag in set.all("Tag") {
            guard let key = tag.text("Key"), let value = tag.text("Value") else { return nil }
            tags.append(Field(key, value))
        }
        return tags
    }

    /// The children of `Tagging`.
    static func write(_ tags: [Field], _ xml: inout XMLWriter) {
        xml.element("TagSet") { xml in
            for tag in tags {
                xml.element("Tag") { xml in
                    xml.element("Key", tag.name)
                    xml.element("Value", tag.value)
                }
            }
        }
    }

    /// Keys of 1 to 128 characters that occur once, values of at most 256.
    static func areValid(_ tags: [Field]) -> Bool {
        Set(tags.map(\.name)).count == tags.count
            && tags.allSatisfy { tag in
                (1...128).contains(tag.name.unicodeScalars.count) && tag.value.unicodeScalars.count <= 256
            }
    }
}
