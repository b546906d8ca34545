import Basics
import ObjectStorage
import TestSupport
import Testing

@testable import Providers

@Suite struct XMLReaderTests {
    private func names(_ document: String) throws -> [String] {
        var seen: [String] = []
        var reader = XMLReader(Array(document.utf8))
        try reader.root { reader, name throws(XMLError) in
            seen.append(name)
            try reader.elements { reader, name throws(XMLError) in seen.append("\(name)=\(try reader.text())") }
        }
        return seen
    }

    @Test func textIsReadWithReferencesCommentsAndCDATA() throws {
        let document = """
            <?xml version="1.0"?><!-- x --><s:R xmlns:s="u>r"><A>a&amp;b &lt;&#65;&#x42;</A><B/><C><![CDATA[<&>]]>!</C>\
            <D><!-- no -->d</D></s:R>
            """
        #expect(try names(document) == ["R", "A=a&b <AB", "B=", "C=<&>!", "D=d"])
    }

    @Test func elementsNobodyReadsArePassedOver() throws {
        var keys: [String] = []
        var reader = XMLReader(Array("<R><X><Key>no</Key><Y/></X><Key>yes</Key><Z>t</Z></R>".utf8))
        try reader.root { reader, _ throws(XMLError) in
            try reader.elements { reader, name throws(XMLError) in
                if name == "Key" { keys.append(try reader.text()) }
            }
        }
        #expect(keys == ["yes"])
    }

    @Test(arguments: [
        "", "text", "<R>", "<R></S>", "<R><A></R></A>", "<R><A>&unknown;</A></R>", "<R><A>&#xD800;</A></R>",
        "<R></R><S/>",
        "<!DOCTYPE x><R/>",
        "<R a=\"", "<R><A>&amp", "<>x</>", String(repeating: "<R>", count: 100),
    ])
    func documentsThatAreBrokenAreRefused(document: String) {
        #expect(throws: XMLError.self) { _ = try names(document) }
    }

    @Test func randomBytesNeverTrap() {
        var generator = SeededGenerator(seed: 11)
        let pieces = [
            "<", ">", "/", "R", "&", ";", "!--", "-->", "![CDATA[", "]]>", "?", "\"", " ", "&#x1;", "</R>", "<R>",
        ]
        for _ in 0..<5000 {
            let count = Int.random(in: 0..<30, using: &generator)
            let text = (0..<count).map { _ in pieces[Int.random(in: 0..<pieces.count, using: &generator)] }.joined()
            _ = try? names(text)
            _ = try? FamilyDocuments(plusIsSpace: true, standardClass: "STANDARD").list(Array(text.utf8))
        }
    }

    @Test func aListingIsDecodedWhenItSaysThatItIsEncoded() throws {
        let document = """
            <ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>b</Name><Contents><Key>a+b%2Bc%00</Key>\
            <LastModified>2023-11-14T22:13:20.000Z</LastModified><ETag>&quot;abc&quot;</ETag><Size>7</Size>\
            <StorageClass>STANDARD</StorageClass></Contents><CommonPrefixes><Prefix>d%20e/</Prefix></CommonPrefixes>\
            <EncodingType>url</EncodingType><IsTruncated>true</IsTruncated><NextContinuationToken>t+1</NextContinuationToken>\
            <KeyCount>2</KeyCount></ListBucketResult>
            """
        let list = try FamilyDocuments(plusIsSpace: true, standardClass: "STANDARD").list(Array(document.utf8))
        let version = ObjectVersion(etag: ETag("abc"), size: 7, modified: Timestamp(seconds: 1_700_000_000))
        #expect(
            list.page.objects == [ListedObject(key: ObjectKey(ByteString(Array("a b+c".utf8) + [0])), version: version)]
        )
        #expect(list.page.commonPrefixes == ["d e/"])
        #expect(list.nextToken == "t+1")
        #expect(list.isTruncated && list.hasKeyCount)
    }
}
